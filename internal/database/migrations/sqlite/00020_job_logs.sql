-- See migrations/mysql.

-- +goose Up
CREATE TABLE job_logs (
  job_id     CHAR(36)     NOT NULL CHECK (length(job_id) <= 36),
  generation INT          NOT NULL,
  progress   VARCHAR(800) NOT NULL CHECK (length(progress) <= 800),
  log        BLOB         NULL,
  PRIMARY KEY (job_id, generation)
) WITHOUT ROWID;
