-- See migrations/mysql.

-- +goose Up
ALTER TABLE accepted_jobs ADD COLUMN lease_token VARCHAR(255) NOT NULL DEFAULT '';
ALTER TABLE accepted_jobs ADD COLUMN lease_ms BIGINT NOT NULL DEFAULT 0;
