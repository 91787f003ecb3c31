-- The declared queues, as Redis had them when they were last changed: a Redis that began anew gets them back from here.
-- queue is JSON. version is Redis' version of the queue; a row is replaced by a newer version only.
-- The queue of an ended job; '' = main. A process of an earlier version names no queue in what it writes.
-- What is there already is left out, so that a migration that was cut off goes on.

-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS queues (
  name       VARCHAR(80) NOT NULL,
  version    BIGINT      NOT NULL,
  queue      TEXT        NOT NULL,
  changed_at DATETIME(6) NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0',
    'ALTER TABLE job_results ADD COLUMN queue VARCHAR(80) NOT NULL DEFAULT ''''')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'job_results' AND column_name = 'queue');
PREPARE ddl FROM @ddl;
EXECUTE ddl;

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0',
    'ALTER TABLE job_outcomes ADD COLUMN queue VARCHAR(80) NOT NULL DEFAULT ''''')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'job_outcomes' AND column_name = 'queue');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
