-- See migrations/mysql.

-- +goose Up
CREATE TABLE api_keys (
  id           CHAR(16)     NOT NULL PRIMARY KEY CHECK (length(id) <= 16),
  name         VARCHAR(100) NOT NULL CHECK (length(name) <= 100),
  role         VARCHAR(16)  NOT NULL CHECK (length(role) <= 16),
  tiers        TEXT         NOT NULL,
  types        TEXT         NOT NULL,
  rate         DOUBLE       NOT NULL,
  burst        INT          NOT NULL,
  in_flight    INT          NOT NULL,
  hash         BINARY(32)   NOT NULL CHECK (length(hash) = 32),
  old_hash     BINARY(32)   NULL CHECK (length(old_hash) = 32),
  old_until    DATETIME     NULL,
  created_at   DATETIME     NOT NULL,
  created_by   VARCHAR(64)  NOT NULL CHECK (length(created_by) <= 64),
  rotated_at   DATETIME     NULL,
  expires_at   DATETIME     NULL,
  revoked_at   DATETIME     NULL,
  last_used_at DATETIME     NULL,
  version      INT          NOT NULL
) WITHOUT ROWID;
CREATE INDEX api_keys_version ON api_keys (version);

CREATE TABLE changes (
  seq         INTEGER      NOT NULL PRIMARY KEY AUTOINCREMENT,
  digest      CHAR(32)     NOT NULL UNIQUE CHECK (length(digest) <= 32),
  changed_at  DATETIME     NOT NULL,
  actor       VARCHAR(64)  NOT NULL CHECK (length(actor) <= 64),
  name        VARCHAR(100) NOT NULL CHECK (length(name) <= 100),
  address     VARCHAR(64)  NOT NULL CHECK (length(address) <= 64),
  action      VARCHAR(64)  NOT NULL CHECK (length(action) <= 64),
  target      VARCHAR(255) NOT NULL CHECK (length(target) <= 255),
  before_json MEDIUMBLOB   NULL,
  after_json  MEDIUMBLOB   NULL,
  outcome     VARCHAR(16)  NOT NULL CHECK (length(outcome) <= 16),
  trace_id    VARCHAR(100) NOT NULL CHECK (length(trace_id) <= 100)
);
