-- Who has signed in to the pages by an OpenID Connect provider.

-- +goose Up
CREATE TABLE sessions (
    id         TEXT PRIMARY KEY,
    hash       TEXT NOT NULL, -- SHA-256 of the secret half, which the browser has
    issuer     TEXT NOT NULL,
    subject    TEXT NOT NULL, -- as the issuer calls them
    name       TEXT NOT NULL, -- for people
    claims     TEXT NOT NULL, -- JSON: what rules go by
    created_at BIGINT NOT NULL,
    expires    BIGINT NOT NULL
);

-- +goose Down
DROP TABLE sessions;
