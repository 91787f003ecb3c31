-- See migrations/mysql.

-- +goose Up
CREATE INDEX job_outcomes_trace ON job_outcomes (trace_id, job_id, generation, owner);
CREATE INDEX failed_jobs_trace ON failed_jobs (trace_id, job_id, generation, owner);
CREATE INDEX failed_jobs_trace_open ON failed_jobs (trace_id, open_at, job_id, generation, owner, tier, type, failure_cause);
