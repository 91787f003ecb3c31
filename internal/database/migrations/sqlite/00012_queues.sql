-- See migrations/mysql.

-- +goose Up
CREATE TABLE queues (
  name       VARCHAR(80) NOT NULL PRIMARY KEY CHECK (length(name) <= 80),
  version    BIGINT      NOT NULL,
  queue      TEXT        NOT NULL,
  changed_at DATETIME    NOT NULL
) WITHOUT ROWID;
ALTER TABLE job_results ADD COLUMN queue VARCHAR(80) NOT NULL DEFAULT '' CHECK (length(queue) <= 80);
ALTER TABLE job_outcomes ADD COLUMN queue VARCHAR(80) NOT NULL DEFAULT '' CHECK (length(queue) <= 80);
