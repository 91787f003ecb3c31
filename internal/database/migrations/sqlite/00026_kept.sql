-- See migrations/mysql.

-- +goose Up
CREATE TABLE kept (
  name VARCHAR(32) NOT NULL PRIMARY KEY,
  text VARCHAR(255) NOT NULL
);
