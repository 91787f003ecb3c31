-- Who completed a job. When a cancelled one was tried and ended: it has no other row. And when a dead letter was discarded, if it is open: nobody has asked for a requeue. Its index serves the lists, with
-- what they are filtered by, in place of the one on discarded_at. (An index that began with the two marks would be read from its newest
-- entry on, however deep the page: MariaDB prefers "both are NULL" to the range behind it.) The other finds promises not yet kept.
-- MySQL has no IF NOT EXISTS for columns: what is there already is left out, so that a migration that was cut off goes on.

-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE job_results ADD COLUMN worker VARCHAR(255) NOT NULL DEFAULT ''''')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'job_results' AND column_name = 'worker');
PREPARE ddl FROM @ddl;
EXECUTE ddl;

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE job_outcomes
  ADD COLUMN first_tried_at DATETIME(6) NULL, ADD COLUMN started_at DATETIME(6) NULL, ADD COLUMN ended_at DATETIME(6) NULL')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'job_outcomes' AND column_name = 'ended_at');
PREPARE ddl FROM @ddl;
EXECUTE ddl;

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE failed_jobs
  ADD COLUMN open_at DATETIME(6) GENERATED ALWAYS AS (CASE WHEN requeue_requested_at IS NULL AND requeued_at IS NULL THEN discarded_at END) STORED,
  DROP KEY failed_jobs_discarded_at,
  ADD KEY failed_jobs_open (open_at, job_id, generation, tier, type, failure_cause),
  ADD KEY failed_jobs_promised (requeued_at, requeue_requested_at),
  ADD KEY failed_jobs_run (requeued_run_id)')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'failed_jobs' AND column_name = 'open_at');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
