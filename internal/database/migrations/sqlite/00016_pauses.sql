-- See migrations/mysql.

-- +goose Up
CREATE TABLE pauses (
  id         INT      NOT NULL PRIMARY KEY,
  version    BIGINT   NOT NULL,
  pauses     TEXT     NOT NULL,
  changed_at DATETIME NOT NULL
) WITHOUT ROWID;
