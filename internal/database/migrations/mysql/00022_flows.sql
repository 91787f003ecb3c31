-- A flow is a set of jobs of which some wait for others. Only flow_jobs has a WAITING job. A released job (PENDING
-- here) has a row in accepted_jobs from the same transaction on, until its outcome. status is the job's, as far as its
-- flow knows: WAITING, PENDING or that of its outcome. waits_for is a JSON array of names and patterns, content a hash
-- of what the submitter said. Ids are in the character set of accepted_jobs: a join of two character sets uses no
-- index.

-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS flows (
  id           CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name         VARCHAR(100) NOT NULL,
  owner        VARCHAR(64)  NOT NULL,
  trace_id     VARCHAR(100) NOT NULL,
  created_at   DATETIME(6)  NOT NULL,
  ended_at     DATETIME(6)  NULL,
  state        VARCHAR(16)  NOT NULL,
  cancelled    TINYINT      NOT NULL,
  request_key  CHAR(32)     NULL,
  request_body CHAR(32)     NULL,
  PRIMARY KEY (id),
  UNIQUE KEY flows_request (request_key),
  KEY flows_owner (owner, id),
  KEY flows_state (state, id),
  KEY flows_ended (ended_at, id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS flow_jobs (
  flow_id           CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name              VARCHAR(100) NOT NULL,
  job_id            CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  status            VARCHAR(16)  NOT NULL,
  generation        INT          NOT NULL,
  dependency_failed TINYINT      NOT NULL,
  on_failure        VARCHAR(8)   NOT NULL,
  tier              VARCHAR(31)  NOT NULL,
  type              VARCHAR(100) NOT NULL,
  owner             VARCHAR(64)  NOT NULL,
  queue             VARCHAR(80)  NOT NULL,
  priority          INT          NOT NULL,
  max_retries       INT          NOT NULL,
  delay_ms          BIGINT       NOT NULL,
  run_at            DATETIME(6)  NULL,
  trace_id          VARCHAR(100) NOT NULL,
  content           CHAR(32)     NOT NULL,
  waits_for         MEDIUMTEXT   NOT NULL,
  options           MEDIUMBLOB   NULL,
  payload           MEDIUMBLOB   NULL,
  PRIMARY KEY (flow_id, name),
  UNIQUE KEY flow_jobs_job (job_id),
  KEY flow_jobs_status (status, job_id),
  KEY flow_jobs_owner (status, owner, job_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
