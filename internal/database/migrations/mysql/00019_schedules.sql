-- The table schedules has the schedules, and SQL decides which process fires one. schedule is JSON. occurrence is the
-- occurrence that becomes a job next, due_at is when it does (NULL: the schedule is paused, or has no further
-- occurrence). A change from one occurrence to the next is an UPDATE of the row that has the first one, so that one
-- process makes it.
-- The table schedule_runs says what became of the occurrences: a job, or why there is none. A row of missed occurrences
-- stands for all from occurrence to through_at. request is the hash of an operator's request to run a schedule; '' = no
-- request. job_id is in the character set of accepted_jobs: a join of two character sets uses no index.

-- +goose Up
CREATE TABLE IF NOT EXISTS schedules (
  name            VARCHAR(80) NOT NULL,
  version         BIGINT      NOT NULL,
  owner           VARCHAR(64) NOT NULL,
  schedule        MEDIUMTEXT  NOT NULL,
  payload         MEDIUMBLOB,
  incarnation     VARCHAR(32) NOT NULL,
  occurrence      DATETIME(6),
  due_at          DATETIME(6),
  last_occurrence DATETIME(6),
  created_at      DATETIME(6) NOT NULL,
  changed_at      DATETIME(6) NOT NULL,
  PRIMARY KEY (name),
  KEY schedules_due (due_at),
  KEY schedules_owner (owner)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS schedule_runs (
  name        VARCHAR(80)  NOT NULL,
  occurrence  DATETIME(6)  NOT NULL,
  request     VARCHAR(32)  NOT NULL,
  job_id      VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  through_at  DATETIME(6)  NOT NULL,
  missed      INT          NOT NULL,
  reason      VARCHAR(16)  NOT NULL,
  detail      VARCHAR(500) NOT NULL,
  recorded_at DATETIME(6)  NOT NULL,
  PRIMARY KEY (name, occurrence, request),
  KEY schedule_runs_job (job_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
