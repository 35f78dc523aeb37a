-- Who may use the server and what they did, and the work that servers share.

-- +goose Up
CREATE TABLE tokens (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    hash       TEXT NOT NULL, -- SHA-256 of the token's secret half
    role       TEXT NOT NULL,
    cluster    TEXT NOT NULL, -- its name; empty: all
    created_at BIGINT NOT NULL,
    expires    BIGINT NOT NULL, -- 0: never
    revoked    BIGINT NOT NULL  -- 0: not
);

CREATE TABLE audit (
    id      TEXT PRIMARY KEY,
    at      BIGINT NOT NULL,
    who     TEXT NOT NULL,
    origin  TEXT NOT NULL, -- the address that was asked from
    action  TEXT NOT NULL,
    cluster TEXT NOT NULL, -- its name; empty: none in particular
    outcome TEXT NOT NULL
);
CREATE INDEX audit_by_time ON audit (at);

CREATE TABLE jobs (
    id         TEXT PRIMARY KEY,
    cluster    TEXT NOT NULL, -- its name: the job outlives it
    verb       TEXT NOT NULL,
    request    TEXT NOT NULL, -- JSON: what was asked for
    who        TEXT NOT NULL,
    state      TEXT NOT NULL, -- queued, running, ended
    stop       INTEGER NOT NULL, -- 0: not asked to, 1: after the running steps, 2: now
    generation BIGINT NOT NULL, -- grows each time a server takes the job
    holder     TEXT NOT NULL,
    expires    BIGINT NOT NULL,
    agreed     TEXT NOT NULL, -- JSON: the plan that is carried out; empty before
    result     TEXT NOT NULL, -- JSON: what came of it
    created_at BIGINT NOT NULL,
    ended      BIGINT NOT NULL
);
CREATE UNIQUE INDEX jobs_one_at_a_time ON jobs (cluster) WHERE state <> 'ended';
CREATE INDEX jobs_by_time ON jobs (created_at);

CREATE TABLE job_lines (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    seq    BIGINT NOT NULL,
    line   TEXT NOT NULL, -- JSON: as naupegos apply --progress json writes it
    PRIMARY KEY (job_id, seq)
);

-- +goose Down
DROP TABLE job_lines;
DROP TABLE jobs;
DROP TABLE audit;
DROP TABLE tokens;
