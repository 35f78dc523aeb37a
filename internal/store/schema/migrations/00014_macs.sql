-- Who wrote a row: HMAC-SHA256 over its place and content, keyed by the store's identity (internal/store/mac.go). Empty: written before this migration.

-- +goose Up
ALTER TABLE tokens ADD COLUMN mac TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN mac TEXT NOT NULL DEFAULT '';
ALTER TABLE cluster_keys ADD COLUMN mac TEXT NOT NULL DEFAULT '';
ALTER TABLE secrets ADD COLUMN mac TEXT NOT NULL DEFAULT '';
ALTER TABLE server_secrets ADD COLUMN mac TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE server_secrets DROP COLUMN mac;
ALTER TABLE secrets DROP COLUMN mac;
ALTER TABLE cluster_keys DROP COLUMN mac;
ALTER TABLE sessions DROP COLUMN mac;
ALTER TABLE tokens DROP COLUMN mac;
