-- Which servers are at work on the store.

-- +goose Up
CREATE TABLE servers (
    id         TEXT PRIMARY KEY,
    holder     TEXT NOT NULL,
    version    TEXT NOT NULL,
    http       TEXT NOT NULL, -- where it listens
    https      TEXT NOT NULL,
    started    BIGINT NOT NULL,
    expires    BIGINT NOT NULL
);

-- +goose Down
DROP TABLE servers;
