-- What is old enough to be deleted, by tier and outcome, the oldest first; and which jobs an Idempotency-Key still stands for. What is there
-- already is left out, so that a migration that was cut off goes on.

-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE job_outcomes ADD KEY job_outcomes_age (outcome, tier, recorded_at)')
  FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'job_outcomes' AND index_name = 'job_outcomes_age');
PREPARE ddl FROM @ddl;
EXECUTE ddl;

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE idempotency_keys ADD KEY idempotency_keys_job (job_id)')
  FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'idempotency_keys' AND index_name = 'idempotency_keys_job');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
