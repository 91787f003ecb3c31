-- See migrations/mysql. Payload and options are the last columns: nothing has to be read through them.

-- +goose Up
CREATE TABLE accepted_jobs (
  job_id           CHAR(36)     NOT NULL PRIMARY KEY CHECK (length(job_id) <= 36),
  generation       INT          NOT NULL,
  tier             VARCHAR(31)  NOT NULL CHECK (length(tier) <= 31),
  type             VARCHAR(100) NOT NULL CHECK (length(type) <= 100),
  owner            VARCHAR(64)  NOT NULL CHECK (length(owner) <= 64),
  priority         INT          NOT NULL,
  max_retries      INT          NOT NULL,
  arrived_at       DATETIME     NULL,
  due_at           DATETIME     NULL,
  attempt          INT          NOT NULL,
  retry_count      INT          NOT NULL,
  first_tried_at   DATETIME     NULL,
  started_at       DATETIME     NULL,
  worker           VARCHAR(255) NOT NULL CHECK (length(worker) <= 255),
  cancel_requested TINYINT      NOT NULL,
  run_id           VARCHAR(64)  NOT NULL CHECK (length(run_id) <= 64),
  trace_id         VARCHAR(100) NOT NULL CHECK (length(trace_id) <= 100),
  idempotency_key  CHAR(32)     NULL CHECK (length(idempotency_key) <= 32),
  idempotency_body CHAR(32)     NULL CHECK (length(idempotency_body) <= 32),
  recorded_at      DATETIME     NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  payload          MEDIUMBLOB   NULL CHECK (length(payload) < 16777216),
  options          MEDIUMBLOB   NULL
);
CREATE INDEX accepted_jobs_run ON accepted_jobs (run_id, job_id);

CREATE TABLE idempotency_keys (
  idem_key   CHAR(32) NOT NULL PRIMARY KEY CHECK (length(idem_key) <= 32),
  body       CHAR(32) NOT NULL CHECK (length(body) <= 32),
  job_id     CHAR(36) NOT NULL CHECK (length(job_id) <= 36),
  expires_at DATETIME NOT NULL
) WITHOUT ROWID;
CREATE INDEX idempotency_keys_expires ON idempotency_keys (expires_at);
