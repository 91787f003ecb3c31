-- The table job_logs has what a job's handlers told beside its result: how far they were at last, and the lines of its
-- log, compressed. A job whose handlers told nothing has no row. A row is written with the outcome of its generation,
-- and goes with it.

-- +goose Up
CREATE TABLE IF NOT EXISTS job_logs (
  job_id     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  generation INT          NOT NULL,
  progress   VARCHAR(800) NOT NULL,
  log        MEDIUMBLOB   NULL,
  PRIMARY KEY (job_id, generation)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
