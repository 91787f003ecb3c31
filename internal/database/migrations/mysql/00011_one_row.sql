-- A completed job is one row, in job_results; job_outcomes has the failed and the cancelled ones. So job_results gets
-- what job_outcomes had for the lists and for retention. recorded_at is NULL in the rows of earlier versions: each of
-- these has a row in job_outcomes too, which has the time.
-- What is there already is left out, so that a migration that was cut off goes on.

-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE job_results ADD COLUMN recorded_at DATETIME(6) NULL')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'job_results' AND column_name = 'recorded_at');
PREPARE ddl FROM @ddl;
EXECUTE ddl;

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE job_results
  ADD KEY job_results_owner (owner, job_id),
  ADD KEY job_results_trace (trace_id, job_id),
  ADD KEY job_results_age (tier, recorded_at)')
  FROM information_schema.statistics
  WHERE table_schema = DATABASE() AND table_name = 'job_results' AND index_name = 'job_results_owner');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
