-- Machines that wait for approval: their claims count for nothing, and they are bounded. Tokens of groups of machines that reboot.

-- +goose Up
ALTER TABLE machines ADD COLUMN waits INTEGER NOT NULL DEFAULT 0; -- 0: approved; 1: heard of once, 2: again, 3: an operator has decided about it
ALTER TABLE machines ADD COLUMN origin TEXT NOT NULL DEFAULT ''; -- the address that it was heard from first, of IPv6 the /64; empty: not known
CREATE INDEX machines_that_wait ON machines (waits, seen_at) WHERE waits > 0;
CREATE INDEX machines_by_origin ON machines (origin) WHERE origin <> '';

-- The MAC addresses that machines claim before somebody approves them: several may claim one.
CREATE TABLE machine_claims (
    mac   TEXT NOT NULL,
    uuid  TEXT NOT NULL REFERENCES machines (uuid) ON DELETE CASCADE,
    place INTEGER NOT NULL, -- as in machine_macs; -1: of another key that claims the UUID
    PRIMARY KEY (mac, uuid)
);
CREATE INDEX machine_claims_by_uuid ON machine_claims (uuid);

UPDATE machines SET waits = 2 WHERE approval = 'pending';
UPDATE machines SET waits = 3 WHERE approval = 'rejected' OR approval = 'pending' AND (name <> '' OR cluster <> ''
    OR uuid IN (SELECT uuid FROM machine_labels) OR uuid IN (SELECT uuid FROM machine_roles));
INSERT INTO machine_claims (mac, uuid, place) SELECT mac, uuid, place FROM machine_macs WHERE uuid IN (SELECT uuid FROM machines WHERE waits > 0);
DELETE FROM machine_macs WHERE uuid IN (SELECT uuid FROM machines WHERE waits > 0);

CREATE TABLE lock_tokens (
    id         TEXT PRIMARY KEY,
    group_name TEXT NOT NULL,
    hash       TEXT NOT NULL, -- SHA-256 of the token's secret half
    created_at BIGINT NOT NULL,
    expires    BIGINT NOT NULL -- 0: never
);

-- +goose Down
DROP TABLE lock_tokens;
DROP INDEX machines_by_origin;
DROP INDEX machines_that_wait;
DROP TABLE machine_claims;
ALTER TABLE machines DROP COLUMN origin;
ALTER TABLE machines DROP COLUMN waits;
