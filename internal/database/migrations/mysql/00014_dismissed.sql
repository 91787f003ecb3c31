-- A dead letter that was dismissed: when, and why. It is open no more, so that the lists of dead letters and their counts
-- leave it out by their index; a requeue of it is possible still, and clears both columns.
-- Why a living job was killed; '' = it was not. A process of an earlier version takes such a row for that of a cancelled
-- job, because cancel_requested is 1 too.
-- What is there already is left out, so that a migration that was cut off goes on.

-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE failed_jobs
  ADD COLUMN dismissed_at DATETIME(6) NULL,
  ADD COLUMN dismiss_reason VARCHAR(500) NOT NULL DEFAULT ''''')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'failed_jobs' AND column_name = 'dismissed_at');
PREPARE ddl FROM @ddl;
EXECUTE ddl;

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE failed_jobs MODIFY COLUMN open_at DATETIME(6) GENERATED ALWAYS AS
  (CASE WHEN requeue_requested_at IS NULL AND requeued_at IS NULL AND dismissed_at IS NULL THEN discarded_at END) STORED')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'failed_jobs' AND column_name = 'open_at'
    AND generation_expression LIKE '%dismissed_at%');
PREPARE ddl FROM @ddl;
EXECUTE ddl;

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0',
    'ALTER TABLE accepted_jobs ADD COLUMN kill_reason VARCHAR(500) NOT NULL DEFAULT ''''')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'accepted_jobs' AND column_name = 'kill_reason');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
