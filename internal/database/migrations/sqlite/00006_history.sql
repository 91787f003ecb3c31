-- See migrations/mysql.

-- +goose Up
ALTER TABLE job_results ADD COLUMN note VARCHAR(200) NOT NULL DEFAULT '' CHECK (length(note) <= 200);
ALTER TABLE job_attempts ADD COLUMN generation INT NOT NULL DEFAULT 0;
ALTER TABLE job_attempts ADD COLUMN until_at DATETIME NULL;
ALTER TABLE failed_jobs ADD COLUMN requeue_reason VARCHAR(500) NOT NULL DEFAULT '' CHECK (length(requeue_reason) <= 500);

CREATE TABLE cancel_reasons (
  job_id     CHAR(36)     NOT NULL CHECK (length(job_id) <= 36),
  generation INT          NOT NULL,
  reason     VARCHAR(500) NOT NULL CHECK (length(reason) <= 500),
  asked_at   DATETIME     NOT NULL,
  PRIMARY KEY (job_id, generation)
) WITHOUT ROWID;
