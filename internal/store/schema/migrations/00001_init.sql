-- Times are microseconds since 1970 UTC. The same SQL for SQLite and PostgreSQL.

-- +goose Up
CREATE TABLE store_facts (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE clusters (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    provider   TEXT NOT NULL,
    document   TEXT NOT NULL,
    facts      TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- One data key a cluster, itself encrypted to the store's age identity (base64).
CREATE TABLE cluster_keys (
    cluster_id TEXT PRIMARY KEY REFERENCES clusters (id) ON DELETE CASCADE,
    wrapped    TEXT NOT NULL
);

CREATE TABLE secrets (
    cluster_id TEXT NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    sealed     TEXT NOT NULL, -- base64 of nonce and ciphertext
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, name)
);

-- A released lease keeps its row, so that its generation only grows.
CREATE TABLE leases (
    cluster_id TEXT PRIMARY KEY REFERENCES clusters (id) ON DELETE CASCADE,
    generation BIGINT NOT NULL,
    held       INTEGER NOT NULL,
    verb       TEXT NOT NULL,
    holder     TEXT NOT NULL,
    acquired   BIGINT NOT NULL,
    heartbeat  BIGINT NOT NULL,
    expires    BIGINT NOT NULL
);

-- The journal outlives its cluster.
CREATE TABLE runs (
    id           TEXT PRIMARY KEY,
    cluster_id   TEXT NOT NULL,
    cluster_name TEXT NOT NULL,
    verb         TEXT NOT NULL,
    holder       TEXT NOT NULL,
    meta         TEXT NOT NULL,
    outcome      TEXT NOT NULL,
    started      BIGINT NOT NULL,
    ended        BIGINT NOT NULL -- 0: not yet
);
CREATE INDEX runs_by_cluster ON runs (cluster_name, started);

CREATE TABLE run_steps (
    run_id  TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq     INTEGER NOT NULL, -- place in the plan
    step_id TEXT NOT NULL,
    action  TEXT NOT NULL,
    title   TEXT NOT NULL,
    subject TEXT NOT NULL,
    reason  TEXT NOT NULL,
    needs   TEXT NOT NULL, -- JSON
    PRIMARY KEY (run_id, step_id)
);

CREATE TABLE run_events (
    run_id  TEXT NOT NULL,
    seq     INTEGER NOT NULL, -- order of writing
    step_id TEXT NOT NULL,
    state   TEXT NOT NULL,
    at      BIGINT NOT NULL,
    error   TEXT NOT NULL,
    PRIMARY KEY (run_id, seq),
    FOREIGN KEY (run_id, step_id) REFERENCES run_steps (run_id, step_id) ON DELETE CASCADE
);

-- +goose Down
DROP TABLE run_events;
DROP TABLE run_steps;
DROP TABLE runs;
DROP TABLE leases;
DROP TABLE secrets;
DROP TABLE cluster_keys;
DROP TABLE clusters;
DROP TABLE store_facts;
