-- A job of a flow may expire: expires_in_ms counts from its release, 0 = it says no such time. A process of an earlier
-- version writes rows without it.
-- What is there already is left out, so that a migration that was cut off goes on.

-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE flow_jobs ADD COLUMN expires_in_ms BIGINT NOT NULL DEFAULT 0')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'flow_jobs' AND column_name = 'expires_in_ms');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
