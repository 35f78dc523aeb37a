-- Who wrote a cluster's record, its facts, and a job, as in 00014: without it a writer of the database has servers do what they like.

-- +goose Up
ALTER TABLE clusters ADD COLUMN mac TEXT NOT NULL DEFAULT '';
ALTER TABLE facts ADD COLUMN mac TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN mac TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE jobs DROP COLUMN mac;
ALTER TABLE facts DROP COLUMN mac;
ALTER TABLE clusters DROP COLUMN mac;
