-- A batch is a group of jobs with one job at the end (docs/adr/0044-batches-in-sql.md). The transactions that move its
-- members move its counts. status is '' while the member's job lives. spec is JSON: the then job, the
-- callback URL. The status is in the index before the id: a page of a batch's members is a range of it.

-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS batches (
  id           CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name         VARCHAR(200) NOT NULL,
  owner        VARCHAR(64)  NOT NULL,
  tier         VARCHAR(31)  NOT NULL,
  spec         MEDIUMBLOB   NOT NULL,
  sealed       TINYINT      NOT NULL,
  total        BIGINT       NOT NULL,
  completed    BIGINT       NOT NULL,
  failed       BIGINT       NOT NULL,
  cancelled    BIGINT       NOT NULL,
  expired      BIGINT       NOT NULL,
  round        INT          NOT NULL,
  ended_round  INT          NOT NULL,
  idem_key     CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  idem_body    CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  created_at   DATETIME(6)  NOT NULL,
  ended_at     DATETIME(6)  NULL,
  cancelled_at DATETIME(6)  NULL,
  PRIMARY KEY (id),
  UNIQUE KEY batches_key (idem_key),
  KEY batches_owner (owner, id),
  KEY batches_ended (ended_at, id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS batch_members (
  job_id     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  batch_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  generation INT         NOT NULL,
  status     VARCHAR(16) NOT NULL,
  ended_at   DATETIME(6) NULL,
  PRIMARY KEY (job_id),
  KEY batch_members_batch (batch_id, status, job_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
