package testkit

import (
	"context"
	"database/sql"
	"strings"
	"testing"
)

// These tests use throwaway servers as external ones.

func TestSharedRedisDB(t *testing.T) {
	t.Setenv("TEST_REDIS_URL", "")
	t.Run("redis", func(t *testing.T) {
		ctx := context.Background()
		seen := map[string]bool{}
		for range 20 {
			t.Run("", func(t *testing.T) {
				url := SharedRedisDB(t)
				if seen[url] {
					t.Fatalf("%s was handed out twice", url)
				}
				seen[url] = true
				c := client(t, url)
				if n := c.DBSize(ctx).Val(); n != 0 {
					t.Fatalf("%s holds %d keys", url, n)
				}
				must(t, c.Set(ctx, "{tierq:0}:main:queue", 1, 0).Err())
			})
		}
	})
}

func TestSharedRedisDBExternal(t *testing.T) {
	t.Run("redis", func(t *testing.T) {
		ctx := context.Background()
		r := NewRedis(t, "--databases", "3")
		t.Setenv("TEST_REDIS_URL", r.URL())
		foreign := client(t, "redis://"+r.Addr()+"/0")
		must(t, foreign.Set(ctx, "theirs", "1", 0).Err())
		// There are more tests than databases: cleaned numbers are used again.
		for range 5 {
			var mine string
			t.Run("", func(t *testing.T) {
				mine = SharedRedisDB(t)
				if strings.HasSuffix(mine, "/0") {
					t.Fatalf("%s is not empty", mine)
				}
				if other := SharedRedisDB(t); other == mine {
					t.Fatalf("%s was handed out twice", mine)
				}
				c := client(t, mine)
				must(t, c.Set(ctx, "{tierq:3}:clock", 1, 0).Err())
				must(t, c.Set(ctx, "{tierq}:system:config", 1, 0).Err())
			})
			if keys := client(t, mine).Keys(ctx, "*").Val(); len(keys) != 0 {
				t.Fatalf("left behind in %s: %v", mine, keys)
			}
		}
		if got := foreign.Get(ctx, "theirs").Val(); got != "1" {
			t.Errorf("a foreign key: %q", got)
		}
	})
}

func TestSharedMariaDB(t *testing.T) {
	t.Setenv("TEST_MYSQL_DSN", "")
	t.Run("mariadb", func(t *testing.T) {
		one, two := SharedMariaDB(t), SharedMariaDB(t)
		if one == two {
			t.Fatalf("%s was handed out twice", one)
		}
		for _, dsn := range []string{one, two} {
			execute(t, open(t, dsn), "CREATE TABLE same (id INT)")
		}
	})
}

func TestSharedMariaDBExternal(t *testing.T) {
	t.Run("mariadb", func(t *testing.T) {
		server := ownMariaDB(t)
		t.Setenv("TEST_MYSQL_DSN", server.DSN("")+"?parseTime=true")
		list := func() (names []string) {
			must(t, admin(server.DSN(""), func(ctx context.Context, db *sql.DB) error {
				rows, err := db.QueryContext(ctx, "SHOW DATABASES")
				if err != nil {
					return err
				}
				defer rows.Close()
				for rows.Next() {
					var name string
					if err := rows.Scan(&name); err != nil {
						return err
					}
					names = append(names, name)
				}
				return rows.Err()
			}))
			return names
		}
		before := len(list())
		t.Run("", func(t *testing.T) {
			dsn := SharedMariaDB(t)
			if !strings.Contains(dsn, "parseTime=true") {
				t.Errorf("the parameters are lost: %s", dsn)
			}
			execute(t, open(t, dsn), "CREATE TABLE mine (id INT)")
			if n := len(list()); n != before+1 {
				t.Errorf("%d databases, want %d", n, before+1)
			}
		})
		if names := list(); len(names) != before {
			t.Errorf("not dropped: %v", names)
		}
	})
}
