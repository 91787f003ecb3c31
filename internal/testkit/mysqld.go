package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
)

// The kit starts the servers that are installed on the machine, or the programs that TEST_REDIS_SERVER and
// TEST_MYSQLD name. With these variables, make stores runs the suites on other products and versions.

// redisProgram returns the redis-server to start.
func redisProgram() (string, error) {
	if bin := os.Getenv("TEST_REDIS_SERVER"); bin != "" {
		return bin, nil
	}
	return program(installRedis, "redis-server")
}

// mysqlProgram returns the mysqld to start in MariaDB's place; "" means MariaDB.
func mysqlProgram() string { return os.Getenv("TEST_MYSQLD") }

// mysqlData is a data folder as mysqld initialises it. Each server of this process gets a copy, because
// initialising takes seconds.
var mysqlData struct {
	sync.Mutex
	dir string
}

// startMySQL starts an Oracle mysqld, as StartMariaDB starts a mariadbd.
func startMySQL(bin string, args []string) (*MariaDB, error) {
	template, err := mysqlTemplate(bin)
	if err != nil {
		return nil, err
	}
	for range attempts {
		var m *MariaDB
		if m, err = tryMySQL(bin, template, args); err == nil {
			return m, nil
		}
	}
	return nil, err
}

func tryMySQL(bin, template string, args []string) (*MariaDB, error) {
	s, err := newServer("mysql")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(s.dir, "data")
	if err := os.CopyFS(data, os.DirFS(template)); err != nil {
		s.Stop()
		return nil, fmt.Errorf("copy the data folder of mysqld: %w", err)
	}
	if err := os.Remove(filepath.Join(data, "auto.cnf")); err != nil { // the server's own id; each copy makes a new one
		s.Stop()
		return nil, fmt.Errorf("copy the data folder of mysqld: %w", err)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "tmp"), 0o700); err != nil {
		s.Stop()
		return nil, fmt.Errorf("tmpdir of mysqld: %w", err)
	}
	s.command = func() *exec.Cmd {
		return exec.Command(bin, slices.Concat(mysqlArgs(data), s.sqlArgs(), []string{
			"--pid-file=mysqld.pid", "--mysqlx=OFF",
		}, args)...)
	}
	s.ready = func(int) error { return mariadbIs(s.Addr(), data) }
	if err := s.start(); err != nil {
		s.Stop()
		return nil, err
	}
	return &MariaDB{server: s}, nil
}

// mysqlArgs returns the arguments that the initialisation and the server must share.
func mysqlArgs(data string) []string {
	args := []string{
		"--no-defaults", "--datadir=" + data, "--tmpdir=" + filepath.Join(filepath.Dir(data), "tmp"),
		"--secure-file-priv=NULL",
		"--innodb-redo-log-capacity=32M", "--performance-schema=OFF", "--skip-log-bin",
	}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	return args
}

// mysqlTemplate returns the data folder to copy. The first call makes it.
func mysqlTemplate(bin string) (string, error) {
	mysqlData.Lock()
	defer mysqlData.Unlock()
	if mysqlData.dir != "" {
		return filepath.Join(mysqlData.dir, "data"), nil
	}
	dir, err := os.MkdirTemp("", "testkit-mysql-template-")
	if err != nil {
		return "", fmt.Errorf("initialise mysqld: %w", err)
	}
	if err := initialiseMySQL(bin, dir); err != nil {
		_ = os.RemoveAll(dir) // files left in the temporary folder do no harm
		return "", err
	}
	mysqlData.dir = dir
	return filepath.Join(dir, "data"), nil
}

func initialiseMySQL(bin, dir string) error {
	log, users := filepath.Join(dir, "install.log"), filepath.Join(dir, "users.sql")
	// Without name resolution, MySQL does not take a client from 127.0.0.1 for root@localhost.
	text := "CREATE USER root@'127.0.0.1';\nGRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"
	if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
		return fmt.Errorf("initialise mysqld: %w", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
		return fmt.Errorf("initialise mysqld: %w", err)
	}
	out, err := os.Create(log)
	if err != nil {
		return fmt.Errorf("initialise mysqld: %w", err)
	}
	defer out.Close()
	// A power loss here does no harm. Without flushes the initialisation takes a third of the time.
	cmd := exec.Command(bin, append(mysqlArgs(filepath.Join(dir, "data")), "--initialize-insecure", "--init-file="+users,
		"--innodb-flush-method=nosync", "--innodb-doublewrite=OFF", "--innodb-flush-log-at-trx-commit=0")...)
	cmd.Stdout, cmd.Stderr = out, out
	c, err := startChild(cmd)
	if err != nil {
		return fmt.Errorf("initialise mysqld: %w", err)
	}
	<-c.exited
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("initialise mysqld: %v\n%s", cmd.ProcessState, tail(log))
	}
	return nil
}

func removeMySQLTemplate() {
	mysqlData.Lock()
	defer mysqlData.Unlock()
	if mysqlData.dir != "" {
		_ = os.RemoveAll(mysqlData.dir) // files left in the temporary folder do no harm
		mysqlData.dir = ""
	}
}

// met appends the product and version that a started server reports to the file that TEST_SERVERS_MET names.
// Without that variable it does nothing.
func met(product, version string) error {
	file := os.Getenv("TEST_SERVERS_MET")
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("note the server: %w", err)
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s %s\n", product, version); err != nil {
		return fmt.Errorf("note the server: %w", err)
	}
	return nil
}
