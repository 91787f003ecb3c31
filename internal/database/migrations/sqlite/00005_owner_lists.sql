-- See migrations/mysql.

-- +goose Up
CREATE INDEX job_outcomes_owner ON job_outcomes (owner, job_id, generation);
CREATE INDEX failed_jobs_owner ON failed_jobs (owner, job_id, generation);
CREATE INDEX failed_jobs_owner_open ON failed_jobs (owner, open_at, job_id, generation, tier, type, failure_cause);
