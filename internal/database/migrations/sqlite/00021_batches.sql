-- See migrations/mysql.

-- +goose Up
CREATE TABLE batches (
  id           CHAR(36)     NOT NULL PRIMARY KEY CHECK (length(id) <= 36),
  name         VARCHAR(200) NOT NULL CHECK (length(name) <= 200),
  owner        VARCHAR(64)  NOT NULL CHECK (length(owner) <= 64),
  tier         VARCHAR(31)  NOT NULL CHECK (length(tier) <= 31),
  sealed       TINYINT      NOT NULL,
  total        BIGINT       NOT NULL,
  completed    BIGINT       NOT NULL,
  failed       BIGINT       NOT NULL,
  cancelled    BIGINT       NOT NULL,
  expired      BIGINT       NOT NULL,
  round        INT          NOT NULL,
  ended_round  INT          NOT NULL,
  idem_key     CHAR(32)     NULL CHECK (length(idem_key) <= 32),
  idem_body    CHAR(32)     NULL CHECK (length(idem_body) <= 32),
  created_at   DATETIME     NOT NULL,
  ended_at     DATETIME     NULL,
  cancelled_at DATETIME     NULL,
  spec         MEDIUMBLOB   NOT NULL
);
CREATE UNIQUE INDEX batches_key ON batches (idem_key);
CREATE INDEX batches_owner ON batches (owner, id);
CREATE INDEX batches_ended ON batches (ended_at, id);

CREATE TABLE batch_members (
  job_id     CHAR(36)    NOT NULL PRIMARY KEY CHECK (length(job_id) <= 36),
  batch_id   CHAR(36)    NOT NULL CHECK (length(batch_id) <= 36),
  generation INT         NOT NULL,
  status     VARCHAR(16) NOT NULL CHECK (length(status) <= 16),
  ended_at   DATETIME    NULL
) WITHOUT ROWID;
CREATE INDEX batch_members_batch ON batch_members (batch_id, status, job_id);
