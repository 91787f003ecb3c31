-- See migrations/mysql.

-- +goose Up
CREATE TABLE line_limits (
  name       TEXT     NOT NULL PRIMARY KEY,
  version    BIGINT   NOT NULL,
  limits     TEXT     NOT NULL,
  changed_at DATETIME NOT NULL
) WITHOUT ROWID;
