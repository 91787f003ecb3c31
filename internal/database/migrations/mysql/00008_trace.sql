-- The jobs of one trace, in the orders of the lists; owner is there for a list of one owner's. What is there already is left out, so that a
-- migration that was cut off goes on.

-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE job_outcomes ADD KEY job_outcomes_trace (trace_id, job_id, generation, owner)')
  FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'job_outcomes' AND index_name = 'job_outcomes_trace');
PREPARE ddl FROM @ddl;
EXECUTE ddl;

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE failed_jobs
  ADD KEY failed_jobs_trace (trace_id, job_id, generation, owner),
  ADD KEY failed_jobs_trace_open (trace_id, open_at, job_id, generation, owner, tier, type, failure_cause)')
  FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'failed_jobs' AND index_name = 'failed_jobs_trace');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
