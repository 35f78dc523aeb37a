-- Physical machines (internal/store/metal). Times are microseconds since 1970 UTC.

-- +goose Up
CREATE TABLE machines (
    uuid       TEXT PRIMARY KEY,
    name       TEXT NOT NULL, -- empty: it has none
    state      TEXT NOT NULL,
    approval   TEXT NOT NULL,
    cluster    TEXT NOT NULL, -- the claim on it; empty: free
    pool       TEXT NOT NULL,
    seat       INTEGER NOT NULL, -- its place in the pool
    record     TEXT NOT NULL, -- JSON: what is not searched for
    facts      TEXT NOT NULL, -- JSON: what the machine says of itself
    created_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL
);
CREATE UNIQUE INDEX machines_by_name ON machines (name) WHERE name <> '';
CREATE UNIQUE INDEX machines_by_seat ON machines (cluster, pool, seat) WHERE cluster <> '';
CREATE INDEX machines_by_state ON machines (state);

CREATE TABLE machine_macs (
    mac   TEXT PRIMARY KEY,
    uuid  TEXT NOT NULL REFERENCES machines (uuid) ON DELETE CASCADE,
    place INTEGER NOT NULL -- 0: the one that it boots by
);
CREATE INDEX machine_macs_by_uuid ON machine_macs (uuid);

CREATE TABLE machine_labels (
    uuid  TEXT NOT NULL REFERENCES machines (uuid) ON DELETE CASCADE,
    label TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (uuid, label)
);
CREATE INDEX machine_labels_by_value ON machine_labels (label, value);

CREATE TABLE machine_roles (
    uuid TEXT NOT NULL REFERENCES machines (uuid) ON DELETE CASCADE,
    role TEXT NOT NULL,
    PRIMARY KEY (uuid, role)
);
CREATE INDEX machine_roles_by_role ON machine_roles (role);

CREATE TABLE machine_boots (
    uuid    TEXT NOT NULL REFERENCES machines (uuid) ON DELETE CASCADE,
    boot_id TEXT NOT NULL,
    at      BIGINT NOT NULL,
    PRIMARY KEY (uuid, boot_id)
);

CREATE TABLE machine_journals (
    uuid    TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    kind    TEXT NOT NULL,
    at      BIGINT NOT NULL,
    lines   TEXT NOT NULL, -- JSON
    PRIMARY KEY (uuid, boot_id, kind),
    FOREIGN KEY (uuid, boot_id) REFERENCES machine_boots (uuid, boot_id) ON DELETE CASCADE
);

CREATE TABLE machine_events (
    uuid   TEXT NOT NULL REFERENCES machines (uuid) ON DELETE CASCADE,
    seq    BIGINT NOT NULL,
    at     BIGINT NOT NULL,
    what   TEXT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (uuid, seq)
);

-- The last report alone: one row a machine, however often it reports.
CREATE TABLE machine_reports (
    uuid     TEXT PRIMARY KEY REFERENCES machines (uuid) ON DELETE CASCADE,
    boot_id  TEXT NOT NULL,
    digest   TEXT NOT NULL,
    sequence BIGINT NOT NULL, -- grows with each report of a machine
    at       BIGINT NOT NULL
);

-- Places that a bounded number of holders may have at once: installations, reboots.
CREATE TABLE slots (
    group_name TEXT NOT NULL,
    holder     TEXT NOT NULL,
    detail     TEXT NOT NULL,
    cluster_id TEXT NOT NULL, -- whose machine the holder is; empty: of none
    acquired   BIGINT NOT NULL,
    expires    BIGINT NOT NULL, -- 0: never
    PRIMARY KEY (group_name, holder)
);
CREATE INDEX slots_by_cluster ON slots (cluster_id);

-- Rows that are locked by who decides about several others.
CREATE TABLE machine_locks (
    name TEXT PRIMARY KEY
);

-- +goose Down
DROP TABLE machine_locks;
DROP TABLE slots;
DROP TABLE machine_reports;
DROP TABLE machine_events;
DROP TABLE machine_journals;
DROP TABLE machine_boots;
DROP TABLE machine_roles;
DROP TABLE machine_labels;
DROP TABLE machine_macs;
DROP TABLE machines;
