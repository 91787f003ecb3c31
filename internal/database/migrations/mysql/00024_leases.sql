-- The lease of a running job whose worker outlives an embedded server. A job of that server's own pool has none: a kill of
-- the process is a crash of the job.
-- What is there already is left out, so that a migration that was cut off goes on.

-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE accepted_jobs
    ADD COLUMN lease_token VARCHAR(255) NOT NULL DEFAULT '''', ADD COLUMN lease_ms BIGINT NOT NULL DEFAULT 0')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'accepted_jobs' AND column_name = 'lease_token');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
