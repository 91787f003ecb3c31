-- The jobs of one owner, in the orders of the lists. What is there already is left out, so that a migration that was cut off goes on.

-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE job_outcomes ADD KEY job_outcomes_owner (owner, job_id, generation)')
  FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'job_outcomes' AND index_name = 'job_outcomes_owner');
PREPARE ddl FROM @ddl;
EXECUTE ddl;

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE failed_jobs
  ADD KEY failed_jobs_owner (owner, job_id, generation),
  ADD KEY failed_jobs_owner_open (owner, open_at, job_id, generation, tier, type, failure_cause)')
  FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'failed_jobs' AND index_name = 'failed_jobs_owner');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
