-- See migrations/mysql.

-- +goose Up
ALTER TABLE accepted_jobs ADD COLUMN own_pool TINYINT NOT NULL DEFAULT 0;
