-- How many attempts of a job's generation lost their worker before the last claim. A process of an earlier version
-- writes rows without it.
-- What is there already is left out, so that a migration that was cut off goes on.

-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE accepted_jobs ADD COLUMN crash_count INT NOT NULL DEFAULT 0')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'accepted_jobs' AND column_name = 'crash_count');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
