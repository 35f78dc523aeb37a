-- What was done, in words: the verb with its arguments, and what it acted on. Rows of before have the verb alone. A run's evidence is JSON.

-- +goose Up
ALTER TABLE runs ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN subject TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN evidence TEXT NOT NULL DEFAULT '';
ALTER TABLE leases ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE leases ADD COLUMN asker TEXT NOT NULL DEFAULT ''; -- the user who asked for it; empty: only the process is known
ALTER TABLE jobs ADD COLUMN title TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE jobs DROP COLUMN title;
ALTER TABLE leases DROP COLUMN asker;
ALTER TABLE leases DROP COLUMN title;
ALTER TABLE runs DROP COLUMN evidence;
ALTER TABLE runs DROP COLUMN subject;
ALTER TABLE runs DROP COLUMN title;
