-- See migrations/mysql.

-- +goose Up
CREATE INDEX batches_open ON batches (owner, ended_at);
