-- Times are UTC. MySQL commits each CREATE by itself: IF NOT EXISTS lets a migration that was cut off go on.
-- Bytes that users gave or get (result, payload) are BLOBs: they come back as they went in.

-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS job_outcomes (
  job_id      CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  generation  INT          NOT NULL,
  outcome     VARCHAR(16)  NOT NULL,
  attempt     INT          NOT NULL,
  tier        VARCHAR(31)  NOT NULL,
  type        VARCHAR(100) NOT NULL,
  owner       VARCHAR(64)  NOT NULL,
  retry_count INT          NOT NULL,
  max_retries INT          NOT NULL,
  arrived_at  DATETIME(6)  NULL,
  trace_id    VARCHAR(100) NOT NULL,
  recorded_at DATETIME(6)  NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (job_id, generation)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS job_results (
  job_id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  generation     INT          NOT NULL,
  tier           VARCHAR(31)  NOT NULL,
  type           VARCHAR(100) NOT NULL,
  owner          VARCHAR(64)  NOT NULL,
  result         MEDIUMBLOB   NULL,
  retry_count    INT          NOT NULL,
  max_retries    INT          NOT NULL,
  attempts       INT          NOT NULL,
  arrived_at     DATETIME(6)  NULL,
  first_tried_at DATETIME(6)  NULL,
  started_at     DATETIME(6)  NULL,
  completed_at   DATETIME(6)  NULL,
  trace_id       VARCHAR(100) NOT NULL,
  PRIMARY KEY (job_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS failed_jobs (
  job_id               CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  generation           INT          NOT NULL,
  tier                 VARCHAR(31)  NOT NULL,
  type                 VARCHAR(100) NOT NULL,
  owner                VARCHAR(64)  NOT NULL,
  payload              MEDIUMBLOB   NULL,
  options              MEDIUMBLOB   NULL,
  total_retries        INT          NOT NULL,
  max_retries          INT          NOT NULL,
  attempts             INT          NOT NULL,
  arrived_at           DATETIME(6)  NULL,
  first_tried_at       DATETIME(6)  NULL,
  started_at           DATETIME(6)  NULL,
  discarded_at         DATETIME(6)  NULL,
  failure_cause        VARCHAR(32)  NOT NULL,
  last_error           TEXT         NOT NULL,
  requeue_requested_at DATETIME(6)  NULL,
  requeue_request_id   VARCHAR(64)  NULL,
  requeued_at          DATETIME(6)  NULL,
  requeued_run_id      VARCHAR(64)  NULL,
  trace_id             VARCHAR(100) NOT NULL,
  PRIMARY KEY (job_id, generation),
  KEY failed_jobs_discarded_at (discarded_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS job_attempts (
  job_id      CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  attempt     INT          NOT NULL,
  worker      VARCHAR(255) NOT NULL,
  started_at  DATETIME(6)  NULL,
  finished_at DATETIME(6)  NULL,
  outcome     VARCHAR(32)  NOT NULL,
  error       TEXT         NOT NULL,
  PRIMARY KEY (job_id, attempt)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
