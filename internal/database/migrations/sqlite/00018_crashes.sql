-- See migrations/mysql.

-- +goose Up
ALTER TABLE accepted_jobs ADD COLUMN crash_count INT NOT NULL DEFAULT 0;
