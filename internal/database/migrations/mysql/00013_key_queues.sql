-- The queues whose jobs a worker's key may claim: a JSON list; NULL, as an empty list, = all declared ones. A process of
-- an earlier version makes keys without it.
-- What is there already is left out, so that a migration that was cut off goes on.

-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE api_keys ADD COLUMN queues TEXT')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'api_keys' AND column_name = 'queues');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
