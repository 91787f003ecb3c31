-- See migrations/mysql.

-- +goose Up
ALTER TABLE flow_jobs ADD COLUMN expires_in_ms BIGINT NOT NULL DEFAULT 0;
