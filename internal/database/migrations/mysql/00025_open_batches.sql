-- The transaction that makes a batch counts the batches of its owner that have not ended.
-- What is there already is left out, so that a migration that was cut off goes on.

-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE batches ADD KEY batches_open (owner, ended_at)')
  FROM information_schema.statistics
  WHERE table_schema = DATABASE() AND table_name = 'batches' AND index_name = 'batches_open');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
