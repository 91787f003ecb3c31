-- See migrations/mysql.

-- +goose Up
ALTER TABLE api_keys ADD COLUMN queues TEXT;
