-- See migrations/mysql.

-- +goose Up
CREATE INDEX job_outcomes_age ON job_outcomes (outcome, tier, recorded_at);
CREATE INDEX idempotency_keys_job ON idempotency_keys (job_id);
