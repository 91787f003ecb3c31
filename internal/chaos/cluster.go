package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/chaos/client"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

const (
	database = "chaos"
	user     = "tierq" // not root: root may write to a server that is read-only
)

// cluster is the servers with their stores. Faults of a store go to the store itself. Each server reaches the
// stores through its own proxies.
type cluster struct {
	Options
	dir     string // holds the logs and the file that the handlers write
	redis   *testkit.Redis
	mariadb *testkit.MariaDB
	rdb     *redis.Client // to Redis itself
	db      *sql.DB       // to MariaDB itself, as root
	servers []*server
	load    *client.Load

	admin string // the operator's key
	keys  []client.Key
	// workerKeys are those of the workers of other programs.
	workerKeys []client.Key
	// scheduleKey is that of the operators of schedules.
	scheduleKey client.Key
	// passwords are those of the keys for the gateway, by their ids.
	passwords map[string]string
	callbacks net.Listener
	receiver  *http.Server
	serving   sync.WaitGroup

	closed sync.Once
	abort  context.CancelFunc // ends the run
	began  time.Time          // of load and faults

	notes  sync.Mutex // guards the fields below, and the lines of Verbose
	ops    []check.Op // submits that faults made
	faults []check.Fault
	beside check.Witness
	pauses []check.Pause // that were known to be in force
	holds  []check.Hold  // of keys of lines
	kills  int
	counts map[string]*tally // by kind and variant
	put    map[job.Tier]put  // plans that a server has stored, or may have stored
	born   map[string]int    // processes that gave up starting, by the last line of their output
	full   int               // submits that were refused with QUEUE_FULL; facts sets it
	broken error             // the first error of the run itself
}

// plans returns the default plans with shorter times: a lost worker is found within seconds.
func plans() []job.Plan {
	all := job.DefaultPlans()
	for i := range all {
		all[i].HeartbeatTimeout, all[i].MaxProcessingTime = 1200*time.Millisecond, 2*time.Second
		all[i].Backoff = job.Backoff{Base: 100 * time.Millisecond, Factor: 2, Cap: time.Second, Jitter: 0.2}
		if all[i].Tier == client.LineTier {
			all[i].Lines = job.LinesKey
		}
	}
	return all
}

// startCluster starts the stores, kills some first starts, starts the servers, makes the clients' API keys and
// gives the keys of lines their limits.
// The first server that serves is given the plans. On an error startCluster stops what it has started.
func startCluster(ctx context.Context, o Options) (c *cluster, err error) {
	c = &cluster{Options: o, counts: map[string]*tally{}, born: map[string]int{}, put: map[job.Tier]put{}}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	if c.dir, err = os.MkdirTemp("", "tierq-chaos-"); err != nil {
		return c, fmt.Errorf("make a folder: %w", err)
	}
	if err = errors.Join(c.mintAdmin(), c.listen(ctx)); err != nil {
		return c, err
	}
	if !o.Embedded {
		err = c.startStores(ctx)
	}
	if err != nil {
		return c, err
	}
	for n := range o.Servers {
		s, err := c.newServer(n)
		if err != nil {
			return c, err
		}
		c.servers = append(c.servers, s)
	}
	if err = c.firstStarts(ctx); err != nil {
		return c, err
	}
	rest := func(s *server) error {
		if s.n == 0 {
			return nil
		}
		return s.start(ctx)
	}
	if err = c.each(rest); err != nil {
		return c, err
	}
	if o.Embedded {
		err = c.openSQLite(ctx)
	}
	if err != nil {
		return c, err
	}
	return c, errors.Join(c.makeKeys(ctx), c.declareQueue(ctx), c.limitLines(ctx))
}

// startStores starts Redis and MariaDB, and makes the servers' database and user.
func (c *cluster) startStores(ctx context.Context) (err error) {
	// A rewrite of the AOF would move the tail that a fault wants to cut.
	if c.redis, err = testkit.StartRedis("--auto-aof-rewrite-percentage", "0"); err != nil {
		return err
	}
	c.rdb = redis.NewClient(&redis.Options{
		Addr: c.redis.Addr(), Protocol: 2, ReadTimeout: 20 * time.Second, ContextTimeoutEnabled: true,
		DisableIdentity: true,
	})
	if c.mariadb, err = testkit.StartMariaDB(); err != nil {
		return err
	}
	return c.openSQL(ctx)
}

func (c *cluster) openSQL(ctx context.Context) error {
	cfg, err := mysql.ParseDSN(c.mariadb.DSN("") + "?parseTime=true&timeout=2s&readTimeout=20s")
	if err != nil {
		return fmt.Errorf("read DSN: %w", err)
	}
	cfg.Logger = &mysql.NopLogger{} // broken connections are expected
	empty, err := mysql.NewConnector(cfg)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	db := sql.OpenDB(empty)
	defer db.Close()
	for _, statement := range []string{
		"CREATE DATABASE " + database + " CHARACTER SET utf8mb4",
		"CREATE USER " + user + "@'%'",
		"GRANT ALL ON " + database + ".* TO " + user + "@'%'",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	cfg.DBName = database
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	c.db = sql.OpenDB(connector)
	return nil
}

func planKey(t job.Tier) string { return "{tierq}:system:config:tier:" + string(t) }

// each calls do for all servers at once and joins the errors.
func (c *cluster) each(do func(*server) error) error {
	errs := make([]error, len(c.servers))
	var group sync.WaitGroup
	for i, s := range c.servers {
		group.Go(func() { errs[i] = do(s) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// lockAll takes the locks of all servers, so that no other fault of a server is under way. The result releases
// them.
func (c *cluster) lockAll() (unlock func()) {
	for _, s := range c.servers {
		s.lock.Lock()
	}
	return func() {
		for _, s := range c.servers {
			s.lock.Unlock()
		}
	}
}

// bases returns the addresses of all servers, whether they serve or not.
func (c *cluster) bases() []string {
	var all []string
	for _, s := range c.servers {
		all = append(all, s.base())
	}
	return all
}

// runs returns the name of the file that the handlers write.
func (c *cluster) runs() string { return filepath.Join(c.dir, "runs") }

// stop ends every process that was started, frozen or not, and closes all connections and listeners. The folder
// stays. A second call does nothing.
func (c *cluster) stop() {
	c.closed.Do(func() {
		hurried.CloseIdleConnections()
		c.stopListening()
		for _, s := range c.servers {
			s.stop()
		}
		if c.rdb != nil {
			_ = c.rdb.Close() // its server is stopped next
		}
		if c.db != nil {
			_ = c.db.Close() // its server is stopped next
		}
		if c.redis != nil {
			c.redis.Stop()
		}
		if c.mariadb != nil {
			c.mariadb.Stop()
		}
	})
}

// say writes a line with the time to Verbose.
func (c *cluster) say(format string, a ...any) {
	c.notes.Lock()
	defer c.notes.Unlock()
	fmt.Fprintf(c.out(), "%s "+format+"\n", append([]any{time.Now().Format("15:04:05.000")}, a...)...)
}

func (o Options) out() io.Writer {
	if o.Verbose == nil {
		return io.Discard
	}
	return o.Verbose
}
