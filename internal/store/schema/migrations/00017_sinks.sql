-- Where each sink of the audit log is, with the hash of that entry and a MAC (internal/store/mac.go). Sinks of before get all entries again.

-- +goose Up
DELETE FROM audit_sinks;
ALTER TABLE audit_sinks ADD COLUMN hash TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_sinks ADD COLUMN mac TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE audit_sinks DROP COLUMN mac;
ALTER TABLE audit_sinks DROP COLUMN hash;
