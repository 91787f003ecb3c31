-- See migrations/mysql. A row of job_outcomes refused columns that are too long. Completed jobs have none any more, so
-- the CHECK of job_results refuses them. It is one line, because GORM reads no column of two lines.

-- +goose Up
ALTER TABLE job_results ADD COLUMN recorded_at DATETIME NULL CHECK (length(job_id) <= 36 AND length(tier) <= 31 AND length(type) <= 100 AND length(owner) <= 64 AND length(trace_id) <= 100);
CREATE INDEX job_results_owner ON job_results (owner, job_id);
CREATE INDEX job_results_trace ON job_results (trace_id, job_id);
CREATE INDEX job_results_age ON job_results (tier, recorded_at, job_id);
