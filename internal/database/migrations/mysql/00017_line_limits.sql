-- The limits of keys of lines. limits is JSON. version grows by one with each change; SQL decides, and Redis is given
-- what it lacks.

-- +goose Up
CREATE TABLE IF NOT EXISTS line_limits (
  name       VARCHAR(400) NOT NULL,
  version    BIGINT       NOT NULL,
  limits     TEXT         NOT NULL,
  changed_at DATETIME(6)  NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
