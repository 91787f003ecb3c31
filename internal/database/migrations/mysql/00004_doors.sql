-- The API keys, and the log of what operators changed. Of a key's secret there is its SHA-256 and nothing else. tiers and types are JSON lists;
-- an empty one means all. version grows with each change of a key, but not with its use: the sum over all keys says whether anything changed.
-- digest is what a change says, hashed: written again it is still one row.

-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS api_keys (
  id           CHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name         VARCHAR(100) NOT NULL,
  role         VARCHAR(16)  NOT NULL,
  tiers        TEXT         NOT NULL,
  types        TEXT         NOT NULL,
  rate         DOUBLE       NOT NULL,
  burst        INT          NOT NULL,
  in_flight    INT          NOT NULL,
  hash         BINARY(32)   NOT NULL,
  old_hash     BINARY(32)   NULL,
  old_until    DATETIME(6)  NULL,
  created_at   DATETIME(6)  NOT NULL,
  created_by   VARCHAR(64)  NOT NULL,
  rotated_at   DATETIME(6)  NULL,
  expires_at   DATETIME(6)  NULL,
  revoked_at   DATETIME(6)  NULL,
  last_used_at DATETIME(6)  NULL,
  version      INT          NOT NULL,
  PRIMARY KEY (id),
  KEY api_keys_version (version)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS changes (
  seq         BIGINT       NOT NULL AUTO_INCREMENT,
  digest      CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  changed_at  DATETIME(6)  NOT NULL,
  actor       VARCHAR(64)  NOT NULL,
  name        VARCHAR(100) NOT NULL,
  address     VARCHAR(64)  NOT NULL,
  action      VARCHAR(64)  NOT NULL,
  target      VARCHAR(255) NOT NULL,
  before_json MEDIUMBLOB   NULL,
  after_json  MEDIUMBLOB   NULL,
  outcome     VARCHAR(16)  NOT NULL,
  trace_id    VARCHAR(100) NOT NULL,
  PRIMARY KEY (seq),
  UNIQUE KEY changes_digest (digest)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
