-- See migrations/mysql.

-- +goose Up
ALTER TABLE accepted_jobs ADD COLUMN submitting TINYINT NOT NULL DEFAULT 0;
