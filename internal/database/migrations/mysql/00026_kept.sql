-- Texts that an embedded server keeps over a restart. Other servers have none.

-- +goose Up
CREATE TABLE IF NOT EXISTS kept (
  name VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  text VARCHAR(255) NOT NULL
);
