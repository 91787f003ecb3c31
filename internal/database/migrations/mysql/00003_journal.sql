-- The accept journal: the living, whole enough to be given back to a Redis that lost them, and the Idempotency-Keys, which live longer.
-- The index finds the rows that another life of Redis (run_id) has written, in the order of their ids.

-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS accepted_jobs (
  job_id           CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  generation       INT          NOT NULL,
  tier             VARCHAR(31)  NOT NULL,
  type             VARCHAR(100) NOT NULL,
  owner            VARCHAR(64)  NOT NULL,
  priority         INT          NOT NULL,
  payload          MEDIUMBLOB   NULL,
  options          MEDIUMBLOB   NULL,
  max_retries      INT          NOT NULL,
  arrived_at       DATETIME(6)  NULL,
  due_at           DATETIME(6)  NULL,
  attempt          INT          NOT NULL,
  retry_count      INT          NOT NULL,
  first_tried_at   DATETIME(6)  NULL,
  started_at       DATETIME(6)  NULL,
  worker           VARCHAR(255) NOT NULL,
  cancel_requested TINYINT      NOT NULL,
  run_id           VARCHAR(64)  NOT NULL,
  trace_id         VARCHAR(100) NOT NULL,
  idempotency_key  CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  idempotency_body CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  recorded_at      DATETIME(6)  NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (job_id),
  KEY accepted_jobs_run (run_id, job_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS idempotency_keys (
  idem_key   CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  body       CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  job_id     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  expires_at DATETIME(6) NOT NULL,
  PRIMARY KEY (idem_key),
  KEY idempotency_keys_expires (expires_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
