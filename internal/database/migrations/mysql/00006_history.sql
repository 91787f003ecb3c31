-- What a result's note says, for lists. Which generation an attempt was of (0: written before this, the outcomes tell) and, of a LATER, until
-- when it was. Why a dead letter was requeued. Why a cancel was asked for: the row is there before Redis is asked, so it may be about a cancel
-- that was not carried out; it counts where the generation ended CANCELLED, or is asked to.
-- MySQL has no IF NOT EXISTS for columns: what is there already is left out, so that a migration that was cut off goes on.

-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE job_results ADD COLUMN note VARCHAR(200) NOT NULL DEFAULT ''''')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'job_results' AND column_name = 'note');
PREPARE ddl FROM @ddl;
EXECUTE ddl;

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE job_attempts
  ADD COLUMN generation INT NOT NULL DEFAULT 0, ADD COLUMN until_at DATETIME(6) NULL')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'job_attempts' AND column_name = 'until_at');
PREPARE ddl FROM @ddl;
EXECUTE ddl;

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE failed_jobs ADD COLUMN requeue_reason VARCHAR(500) NOT NULL DEFAULT ''''')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'failed_jobs' AND column_name = 'requeue_reason');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

CREATE TABLE IF NOT EXISTS cancel_reasons (
  job_id     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  generation INT          NOT NULL,
  reason     VARCHAR(500) NOT NULL,
  asked_at   DATETIME(6)  NOT NULL,
  PRIMARY KEY (job_id, generation)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
