-- See migrations/mysql.

-- +goose Up
CREATE TABLE schedules (
  name            TEXT     NOT NULL PRIMARY KEY,
  version         BIGINT   NOT NULL,
  owner           TEXT     NOT NULL,
  schedule        TEXT     NOT NULL,
  payload         BLOB,
  incarnation     TEXT     NOT NULL,
  occurrence      DATETIME,
  due_at          DATETIME,
  last_occurrence DATETIME,
  created_at      DATETIME NOT NULL,
  changed_at      DATETIME NOT NULL
) WITHOUT ROWID;
CREATE INDEX schedules_due ON schedules (due_at);
CREATE INDEX schedules_owner ON schedules (owner);

CREATE TABLE schedule_runs (
  name        TEXT     NOT NULL,
  occurrence  DATETIME NOT NULL,
  request     TEXT     NOT NULL,
  job_id      TEXT     NOT NULL,
  through_at  DATETIME NOT NULL,
  missed      INT      NOT NULL,
  reason      TEXT     NOT NULL,
  detail      TEXT     NOT NULL,
  recorded_at DATETIME NOT NULL,
  PRIMARY KEY (name, occurrence, request)
) WITHOUT ROWID;
CREATE INDEX schedule_runs_job ON schedule_runs (job_id);
