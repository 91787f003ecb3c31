-- A row that a submit wrote is the submit's to take back while submitting is 1: Redis may still refuse the job.
-- MySQL has no IF NOT EXISTS for columns: what is there already is left out, so that a migration that was cut off goes on.

-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE accepted_jobs ADD COLUMN submitting TINYINT NOT NULL DEFAULT 0')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'accepted_jobs' AND column_name = 'submitting');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
