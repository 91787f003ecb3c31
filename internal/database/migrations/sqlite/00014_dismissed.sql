-- See migrations/mysql. SQLite can neither change a stored column nor add one, so the table of dead letters is made anew;
-- payload and options stay its last columns.

-- +goose Up
CREATE TABLE failed_jobs_2 (
  job_id               CHAR(36)     NOT NULL,
  generation           INT          NOT NULL,
  tier                 VARCHAR(31)  NOT NULL,
  type                 VARCHAR(100) NOT NULL,
  owner                VARCHAR(64)  NOT NULL,
  total_retries        INT          NOT NULL,
  max_retries          INT          NOT NULL,
  attempts             INT          NOT NULL,
  arrived_at           DATETIME     NULL,
  first_tried_at       DATETIME     NULL,
  started_at           DATETIME     NULL,
  discarded_at         DATETIME     NULL,
  failure_cause        VARCHAR(32)  NOT NULL CHECK (length(failure_cause) <= 32),
  requeue_requested_at DATETIME     NULL,
  requeue_request_id   VARCHAR(64)  NULL CHECK (length(requeue_request_id) <= 64),
  requeued_at          DATETIME     NULL,
  requeued_run_id      VARCHAR(64)  NULL CHECK (length(requeued_run_id) <= 64),
  requeue_reason       VARCHAR(500) NOT NULL DEFAULT '' CHECK (length(requeue_reason) <= 500),
  dismissed_at         DATETIME     NULL,
  dismiss_reason       VARCHAR(500) NOT NULL DEFAULT '' CHECK (length(dismiss_reason) <= 500),
  open_at DATETIME NULL GENERATED ALWAYS AS (iif(coalesce(requeue_requested_at, requeued_at, dismissed_at) IS NULL, discarded_at, NULL)) STORED,
  trace_id             VARCHAR(100) NOT NULL,
  last_error           TEXT         NOT NULL CHECK (length(CAST(last_error AS BLOB)) < 65536),
  payload              MEDIUMBLOB   NULL CHECK (length(payload) < 16777216),
  options              MEDIUMBLOB   NULL,
  PRIMARY KEY (job_id, generation)
);
INSERT INTO failed_jobs_2 (job_id, generation, tier, type, owner, total_retries, max_retries, attempts, arrived_at,
  first_tried_at, started_at, discarded_at, failure_cause, requeue_requested_at, requeue_request_id, requeued_at,
  requeued_run_id, requeue_reason, trace_id, last_error, payload, options)
SELECT job_id, generation, tier, type, owner, total_retries, max_retries, attempts, arrived_at,
  first_tried_at, started_at, discarded_at, failure_cause, requeue_requested_at, requeue_request_id, requeued_at,
  requeued_run_id, requeue_reason, trace_id, last_error, payload, options
FROM failed_jobs;
DROP TABLE failed_jobs;
ALTER TABLE failed_jobs_2 RENAME TO failed_jobs;
CREATE INDEX failed_jobs_open ON failed_jobs (open_at, job_id, generation, tier, type, failure_cause);
CREATE INDEX failed_jobs_promised ON failed_jobs (requeued_at, requeue_requested_at);
CREATE INDEX failed_jobs_run ON failed_jobs (requeued_run_id);
CREATE INDEX failed_jobs_owner ON failed_jobs (owner, job_id, generation);
CREATE INDEX failed_jobs_owner_open ON failed_jobs (owner, open_at, job_id, generation, tier, type, failure_cause);
CREATE INDEX failed_jobs_trace ON failed_jobs (trace_id, job_id, generation, owner);
CREATE INDEX failed_jobs_trace_open ON failed_jobs
  (trace_id, open_at, job_id, generation, owner, tier, type, failure_cause);

ALTER TABLE accepted_jobs ADD COLUMN kill_reason VARCHAR(500) NOT NULL DEFAULT '' CHECK (length(kill_reason) <= 500);
