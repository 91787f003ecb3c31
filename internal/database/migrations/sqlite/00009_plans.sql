-- See migrations/mysql.

-- +goose Up
CREATE TABLE plans (
  tier       VARCHAR(31) NOT NULL PRIMARY KEY CHECK (length(tier) <= 31),
  version    BIGINT      NOT NULL,
  plan       TEXT        NOT NULL,
  changed_at DATETIME    NOT NULL
) WITHOUT ROWID;
