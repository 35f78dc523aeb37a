-- What servers do unasked for clusters.

-- +goose Up
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
    outcome    TEXT NOT NULL, -- of the last time: done, nothing, failed, put off
    message    TEXT NOT NULL,
    job        TEXT NOT NULL,
    PRIMARY KEY (cluster, kind)
);

-- +goose Down
DROP TABLE duties;
