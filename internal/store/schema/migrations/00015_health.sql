-- How each cluster was when a server last looked, and which server looks next.

-- +goose Up
CREATE TABLE health (
    cluster_id TEXT PRIMARY KEY REFERENCES clusters (id) ON DELETE CASCADE,
    due        BIGINT NOT NULL,
    holder     TEXT NOT NULL, -- who looks; empty: nobody
    expires    BIGINT NOT NULL,
    looked     BIGINT NOT NULL, -- the last time; 0: never
    answered   BIGINT NOT NULL, -- when the report was made; 0: there is none
    state      TEXT NOT NULL, -- healthy, drifted, unhealthy, unknown
    cause      TEXT NOT NULL,
    remedy     TEXT NOT NULL, -- a command
    summary    TEXT NOT NULL, -- JSON, short: for lists
    report     TEXT NOT NULL -- JSON of the last answer
);

-- +goose Down
DROP TABLE health;
