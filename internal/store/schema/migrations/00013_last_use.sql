-- When tokens and sessions were used last, why a token does not expire, and when somebody has proven who they are.

-- +goose Up
ALTER TABLE tokens ADD COLUMN reason TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN used BIGINT NOT NULL DEFAULT 0;     -- 0: never
ALTER TABLE sessions ADD COLUMN used BIGINT NOT NULL DEFAULT 0;   -- 0: not since it began
ALTER TABLE sessions ADD COLUMN proven BIGINT NOT NULL DEFAULT 0; -- as the provider says it; 0: it does not

-- +goose Down
ALTER TABLE sessions DROP COLUMN proven;
ALTER TABLE sessions DROP COLUMN used;
ALTER TABLE tokens DROP COLUMN used;
ALTER TABLE tokens DROP COLUMN reason;
