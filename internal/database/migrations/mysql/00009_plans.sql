-- The tiers' plans, as Redis had them when they were last changed: a Redis that began anew gets them back from here.
-- plan is JSON. version is Redis' version of the plan; a row is replaced by a newer version only.

-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS plans (
  tier       VARCHAR(31) NOT NULL,
  version    BIGINT      NOT NULL,
  plan       TEXT        NOT NULL,
  changed_at DATETIME(6) NOT NULL,
  PRIMARY KEY (tier)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
