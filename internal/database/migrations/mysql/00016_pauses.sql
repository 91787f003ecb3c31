-- What is paused, as Redis had it when it was last changed: a Redis that began anew gets it back from here. There is
-- one row. pauses is JSON. version is Redis' version of it; the row is replaced by a newer version only.

-- +goose Up
CREATE TABLE IF NOT EXISTS pauses (
  id         INT         NOT NULL,
  version    BIGINT      NOT NULL,
  pauses     TEXT        NOT NULL,
  changed_at DATETIME(6) NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
