-- The tables of migrations/mysql, with the same limits. SQLite takes text of any length, so CHECK says what VARCHAR says there.
-- WITHOUT ROWID: the primary key is the table, not a second tree beside it.

-- +goose Up
CREATE TABLE job_outcomes (
  job_id      CHAR(36)     NOT NULL CHECK (length(job_id) <= 36),
  generation  INT          NOT NULL,
  outcome     VARCHAR(16)  NOT NULL CHECK (length(outcome) <= 16),
  attempt     INT          NOT NULL,
  tier        VARCHAR(31)  NOT NULL CHECK (length(tier) <= 31),
  type        VARCHAR(100) NOT NULL CHECK (length(type) <= 100),
  owner       VARCHAR(64)  NOT NULL CHECK (length(owner) <= 64),
  retry_count INT          NOT NULL,
  max_retries INT          NOT NULL,
  arrived_at  DATETIME     NULL,
  trace_id    VARCHAR(100) NOT NULL CHECK (length(trace_id) <= 100),
  recorded_at DATETIME     NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  PRIMARY KEY (job_id, generation)
) WITHOUT ROWID;

CREATE TABLE job_results (
  job_id         CHAR(36)     NOT NULL PRIMARY KEY,
  generation     INT          NOT NULL,
  tier           VARCHAR(31)  NOT NULL,
  type           VARCHAR(100) NOT NULL,
  owner          VARCHAR(64)  NOT NULL,
  result         MEDIUMBLOB   NULL CHECK (length(result) < 16777216),
  retry_count    INT          NOT NULL,
  max_retries    INT          NOT NULL,
  attempts       INT          NOT NULL,
  arrived_at     DATETIME     NULL,
  first_tried_at DATETIME     NULL,
  started_at     DATETIME     NULL,
  completed_at   DATETIME     NULL,
  trace_id       VARCHAR(100) NOT NULL
);

CREATE TABLE failed_jobs (
  job_id               CHAR(36)     NOT NULL,
  generation           INT          NOT NULL,
  tier                 VARCHAR(31)  NOT NULL,
  type                 VARCHAR(100) NOT NULL,
  owner                VARCHAR(64)  NOT NULL,
  payload              MEDIUMBLOB   NULL CHECK (length(payload) < 16777216),
  options              MEDIUMBLOB   NULL,
  total_retries        INT          NOT NULL,
  max_retries          INT          NOT NULL,
  attempts             INT          NOT NULL,
  arrived_at           DATETIME     NULL,
  first_tried_at       DATETIME     NULL,
  started_at           DATETIME     NULL,
  discarded_at         DATETIME     NULL,
  failure_cause        VARCHAR(32)  NOT NULL CHECK (length(failure_cause) <= 32),
  last_error           TEXT         NOT NULL CHECK (length(CAST(last_error AS BLOB)) < 65536),
  requeue_requested_at DATETIME     NULL,
  requeue_request_id   VARCHAR(64)  NULL,
  requeued_at          DATETIME     NULL,
  requeued_run_id      VARCHAR(64)  NULL,
  trace_id             VARCHAR(100) NOT NULL,
  PRIMARY KEY (job_id, generation)
);
CREATE INDEX failed_jobs_discarded_at ON failed_jobs (discarded_at);

CREATE TABLE job_attempts (
  job_id      CHAR(36)     NOT NULL,
  attempt     INT          NOT NULL,
  worker      VARCHAR(255) NOT NULL CHECK (length(worker) <= 255),
  started_at  DATETIME     NULL,
  finished_at DATETIME     NULL,
  outcome     VARCHAR(32)  NOT NULL CHECK (length(outcome) <= 32),
  error       TEXT         NOT NULL CHECK (length(CAST(error AS BLOB)) < 65536),
  PRIMARY KEY (job_id, attempt)
);
