# Makes the two MySQL users of docs/SECURITY.md: tierq, which the server works with, and tierq_schema, which may change
# tables. The image's entry point reads this file once, with an empty volume. By hand, on a volume that is older than it,
# or after a password was changed: docker compose exec mysql sh /docker-entrypoint-initdb.d/tierq-users.sh
if ! command -v docker_process_sql >/dev/null; then
	docker_process_sql() { MYSQL_PWD="$MYSQL_ROOT_PASSWORD" mysql -u root; }
fi
quoted() { printf %s "$1" | sed "s/\\\\/\\\\\\\\/g; s/'/''/g"; }

docker_process_sql <<SQL
CREATE USER IF NOT EXISTS 'tierq'@'%';
ALTER USER 'tierq'@'%' IDENTIFIED BY '$(quoted "$MYSQL_TIERQ_PASSWORD")';
GRANT SELECT, INSERT, UPDATE, DELETE ON \`$MYSQL_DATABASE\`.* TO 'tierq'@'%';
CREATE USER IF NOT EXISTS 'tierq_schema'@'%';
ALTER USER 'tierq_schema'@'%' IDENTIFIED BY '$(quoted "$MYSQL_SCHEMA_PASSWORD")';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX ON \`$MYSQL_DATABASE\`.* TO 'tierq_schema'@'%';
SQL
