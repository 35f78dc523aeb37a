-- Which servers are at work on the store, and what they do unasked.

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

CREATE TABLE duties (
    cluster    TEXT NOT NULL, -- its name
    kind       TEXT NOT NULL, -- drift, renew, …
    due        BIGINT NOT NULL,
    generation BIGINT NOT NULL, -- grows each time a server takes it
    holder     TEXT NOT NULL, -- empty: nobody is at it
    expires    BIGINT NOT NULL,
    failures   BIGINT NOT NULL, -- since it went well last
    began      BIGINT NOT NULL, -- the last time
    ended      BIGINT NOT NULL,
    succeeded  BIGINT NOT NULL,
    outcome    TEXT NOT NULL, -- of the last time: done, nothing, failed
    message    TEXT NOT NULL,
    job        TEXT NOT NULL,
    PRIMARY KEY (cluster, kind)
);

-- +goose Down
DROP TABLE duties;
DROP TABLE servers;
