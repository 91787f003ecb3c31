-- See migrations/mysql. Payload and options are the last columns: nothing has to be read through them.

-- +goose Up
CREATE TABLE flows (
  id           CHAR(36)     NOT NULL PRIMARY KEY CHECK (length(id) <= 36),
  name         VARCHAR(100) NOT NULL,
  owner        VARCHAR(64)  NOT NULL CHECK (length(owner) <= 64),
  trace_id     VARCHAR(100) NOT NULL CHECK (length(trace_id) <= 100),
  created_at   DATETIME     NOT NULL,
  ended_at     DATETIME     NULL,
  state        VARCHAR(16)  NOT NULL,
  cancelled    TINYINT      NOT NULL,
  request_key  CHAR(32)     NULL,
  request_body CHAR(32)     NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX flows_request ON flows (request_key);
CREATE INDEX flows_owner ON flows (owner, id);
CREATE INDEX flows_state ON flows (state, id);
CREATE INDEX flows_ended ON flows (ended_at, id);

CREATE TABLE flow_jobs (
  flow_id           CHAR(36)     NOT NULL CHECK (length(flow_id) <= 36),
  name              VARCHAR(100) NOT NULL CHECK (length(name) <= 100),
  job_id            CHAR(36)     NOT NULL CHECK (length(job_id) <= 36),
  status            VARCHAR(16)  NOT NULL,
  generation        INT          NOT NULL,
  dependency_failed TINYINT      NOT NULL,
  on_failure        VARCHAR(8)   NOT NULL,
  tier              VARCHAR(31)  NOT NULL CHECK (length(tier) <= 31),
  type              VARCHAR(100) NOT NULL CHECK (length(type) <= 100),
  owner             VARCHAR(64)  NOT NULL CHECK (length(owner) <= 64),
  queue             VARCHAR(80)  NOT NULL CHECK (length(queue) <= 80),
  priority          INT          NOT NULL,
  max_retries       INT          NOT NULL,
  delay_ms          BIGINT       NOT NULL,
  run_at            DATETIME     NULL,
  trace_id          VARCHAR(100) NOT NULL CHECK (length(trace_id) <= 100),
  content           CHAR(32)     NOT NULL,
  waits_for         MEDIUMTEXT   NOT NULL,
  options           MEDIUMBLOB   NULL,
  payload           MEDIUMBLOB   NULL CHECK (length(payload) < 16777216),
  PRIMARY KEY (flow_id, name)
);
CREATE UNIQUE INDEX flow_jobs_job ON flow_jobs (job_id);
CREATE INDEX flow_jobs_status ON flow_jobs (status, job_id);
CREATE INDEX flow_jobs_owner ON flow_jobs (status, owner, job_id);
