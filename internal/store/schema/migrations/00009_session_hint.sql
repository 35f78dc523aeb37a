-- What a provider ends its own session by, when somebody signs out of the pages.

-- +goose Up
ALTER TABLE sessions ADD COLUMN hint TEXT NOT NULL DEFAULT ''; -- sealed by the secret half, which the browser has; empty: nothing

-- +goose Down
ALTER TABLE sessions DROP COLUMN hint;
