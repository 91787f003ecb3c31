-- See migrations/mysql.

-- +goose Up
ALTER TABLE api_keys ADD COLUMN submits TINYINT NOT NULL DEFAULT 0;
ALTER TABLE api_keys ADD COLUMN leases INT NOT NULL DEFAULT 0;
