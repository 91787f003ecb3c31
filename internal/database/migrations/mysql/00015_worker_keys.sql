-- What a worker's key may besides its queues: submits = 1: it also submits jobs; leases: how many jobs it may run at once,
-- 0 = any number. A process of an earlier version makes keys without both.
-- What is there already is left out, so that a migration that was cut off goes on.

-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE api_keys ADD COLUMN submits TINYINT NOT NULL DEFAULT 0')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'api_keys' AND column_name = 'submits');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE api_keys ADD COLUMN leases INT NOT NULL DEFAULT 0')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'api_keys' AND column_name = 'leases');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
