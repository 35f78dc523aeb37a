-- The audit log is a chain: each entry has the hash of the one before in its own, and a signature. Entries of before have neither until the first
-- one is written after this.

-- +goose Up
ALTER TABLE audit ADD COLUMN seq BIGINT NOT NULL DEFAULT 0;         -- from 1; 0: not in the chain yet
ALTER TABLE audit ADD COLUMN via TEXT NOT NULL DEFAULT '';          -- the way to sign in
ALTER TABLE audit ADD COLUMN session TEXT NOT NULL DEFAULT '';      -- the token or session that was shown
ALTER TABLE audit ADD COLUMN repeated BIGINT NOT NULL DEFAULT 0;    -- for how many requests the entry stands; 0: one
ALTER TABLE audit ADD COLUMN hash TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN signature TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX audit_by_seq ON audit (seq) WHERE seq > 0;

CREATE TABLE audit_head (
    id        INTEGER PRIMARY KEY, -- 1
    seq       BIGINT NOT NULL,     -- of the last entry; 0: there is none
    hash      TEXT NOT NULL,       -- of the last entry
    first     BIGINT NOT NULL,     -- the number of the oldest entry that is kept
    anchor    TEXT NOT NULL,       -- the hash of the entry before that one
    at        BIGINT NOT NULL,
    signature TEXT NOT NULL
);
INSERT INTO audit_head (id, seq, hash, first, anchor, at, signature) VALUES (1, 0, '', 1, '', 0, '');

CREATE TABLE audit_sinks (
    sink TEXT PRIMARY KEY, -- where entries are forwarded to
    seq  BIGINT NOT NULL   -- the last one that it has
);

-- +goose Down
DROP TABLE audit_sinks;
DROP TABLE audit_head;
DROP INDEX audit_by_seq;
ALTER TABLE audit DROP COLUMN signature;
ALTER TABLE audit DROP COLUMN hash;
ALTER TABLE audit DROP COLUMN repeated;
ALTER TABLE audit DROP COLUMN session;
ALTER TABLE audit DROP COLUMN via;
ALTER TABLE audit DROP COLUMN seq;
