-- Whether an embedded server's own pool ran the job at the last claim: then a kill of the process is a crash of the
-- job. A process of an earlier version writes rows without it.
-- What is there already is left out, so that a migration that was cut off goes on.

-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE accepted_jobs ADD COLUMN own_pool TINYINT NOT NULL DEFAULT 0')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'accepted_jobs' AND column_name = 'own_pool');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
