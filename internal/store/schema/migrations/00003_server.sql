-- What naupegos server keeps of its own, each encrypted to the store's age identity (base64).

-- +goose Up
CREATE TABLE server_secrets (
    name       TEXT PRIMARY KEY,
    sealed     TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- +goose Down
DROP TABLE server_secrets;
