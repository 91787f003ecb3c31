// Package packaging checks docker-compose.yml and the Dockerfile against the docs. It contains only tests.
package packaging

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/testkit"
)

const root = "../.."

func loadCompose(t *testing.T, environ ...string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{root + "/docker-compose.yml"}, cli.WithEnv(environ),
		cli.WithWorkingDirectory(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}

// dotenv is the .env of a user who followed the head of docker-compose.yml.
var dotenv = []string{
	"MYSQL_ROOT_PASSWORD=ro@t:1", "MYSQL_TIERQ_PASSWORD=p@ss/word:1", "MYSQL_SCHEMA_PASSWORD=it's \\ one",
	"REDIS_PASSWORD=a1b2c3",
	"MYSQL_DATABASE=traffic_control_service_db",
}

func compose(t *testing.T) *types.Project {
	t.Helper()
	p, err := loadCompose(t, dotenv...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestComposeServices(t *testing.T) {
	t.Attr("proves", "S2-C2 S2-N16")
	p := compose(t)
	if names := p.ServiceNames(); !slices.Equal(names, []string{"mysql", "redis", "schema", "server"}) {
		t.Fatalf("services %q", names)
	}
	for name, data := range map[string]string{
		"server": "/data", "schema": "/data", "redis": "/data", "mysql": "/var/lib/mysql",
	} {
		s := p.Services[name]
		if s.HealthCheck == nil || len(s.HealthCheck.Test) < 2 || s.HealthCheck.StartPeriod == nil {
			t.Errorf("%s has no health check with a start period", name)
			continue
		}
		// The first start of MySQL takes 10 to 15 s, and much longer on a slow disk.
		if name == "mysql" && time.Duration(*s.HealthCheck.StartPeriod) < 30*time.Second {
			t.Errorf("mysql is given only %v to set itself up", *s.HealthCheck.StartPeriod)
		}
		if len(s.Volumes) != 1 || s.Volumes[0].Type != types.VolumeTypeVolume || s.Volumes[0].Target != data {
			t.Errorf("%s keeps %s in no named volume: %+v", name, data, s.Volumes)
		} else if v, ok := p.Volumes[s.Volumes[0].Source]; !ok || bool(v.External) {
			t.Errorf("the volume %s is not declared", s.Volumes[0].Source)
		}
	}
	needs := p.Services["server"].DependsOn
	for _, name := range []string{"redis", "mysql", "schema"} {
		if needs[name].Condition != types.ServiceConditionHealthy {
			t.Errorf("the server does not wait for %s to be healthy", name)
		}
	}
}

// Only the server is published, and only on loopback.
func TestComposeIsOnLoopbackOnly(t *testing.T) {
	t.Attr("proves", "S2-N15")
	for name, s := range compose(t).Services {
		if published := len(s.Ports) > 0; published != (name == "server") {
			t.Errorf("%s is published: %v", name, s.Ports)
		}
		for _, port := range s.Ports {
			if ip := net.ParseIP(port.HostIP); ip == nil || !ip.IsLoopback() {
				t.Errorf("%s is published on %q:%s", name, port.HostIP, port.Published)
			}
		}
		if s.NetworkMode == "host" || s.Privileged {
			t.Errorf("%s is not in a network of its own", name)
		}
	}
	if port := compose(t).Services["server"].Ports[0]; port.Published != "8080" || port.Target != 8080 {
		t.Errorf("the server is published as %+v", port)
	}
}

// The server knows every setting that the compose file gives it, and starts with them.
func TestComposeServerSettings(t *testing.T) {
	t.Attr("proves", "S2-C1")
	s := compose(t).Services["server"]
	var environ []string
	for name, text := range s.Environment {
		known := slices.ContainsFunc(config.Settings(),
			func(s config.Setting) bool { return s.Name == name || s.Secret && s.Name+"_FILE" == name })
		if !known {
			t.Errorf("%s is no setting", name)
		}
		if name == "TIERQ_ADMIN_KEY_FILE" {
			text = adminKey(t, *text)
		}
		if text != nil {
			environ = append(environ, name+"="+*text)
		}
	}
	c, err := config.Load(environ, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := "tierq:p@ss/word:1@tcp(mysql:3306)/traffic_control_service_db"; c.MySQLDSN != want {
		t.Errorf("MYSQL_DSN=%s, want %s", c.MySQLDSN, want)
	}
	if c.Embedded() || c.RedisURL != "redis://:a1b2c3@redis:6379/0" || c.Insecure || c.AdminKey == "" ||
		!strings.HasPrefix(c.Addr, "0.0.0.0:") {
		t.Errorf("settings\n%v", c)
	}
	if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) <= c.DrainTimeout {
		t.Errorf("killed after %v, before the drain of %v is over", s.StopGracePeriod, c.DrainTimeout)
	}

	p, err := loadCompose(t, append(dotenv, "TIERQ_WORKERS=3")...)
	if err != nil {
		t.Fatal(err)
	}
	if workers := p.Services["server"].Environment["TIERQ_WORKERS"]; workers == nil || *workers != "3" {
		t.Error("TIERQ_WORKERS of .env does not reach the server")
	}
	for _, setting := range config.Settings() {
		own := slices.Contains([]string{"TIERQ_DATA_DIR", "TIERQ_ADMIN_KEY"}, setting.Name) // set otherwise
		if _, passed := s.Environment[setting.Name]; !passed && !own {
			t.Errorf("%s of .env does not reach the server", setting.Name)
		}
	}
}

// adminKey replaces the file in which the server gets its admin key.
func adminKey(t *testing.T, path string) *string {
	t.Helper()
	p := compose(t)
	mounted := p.Services["server"].Secrets
	if len(mounted) != 1 || path != "/run/secrets/"+mounted[0].Source || p.Secrets[mounted[0].Source].File == "" {
		t.Errorf("%s is none of the secrets %+v, %+v", path, mounted, p.Secrets)
	}
	file := filepath.Join(t.TempDir(), "admin.key")
	if err := os.WriteFile(file, []byte("tq_abcdefghijklmn27_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_A\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	return &file
}

// The admin key is in no image and no commit, and there is no default key.
func TestComposeAdminKeyStaysHere(t *testing.T) {
	t.Attr("proves", "A49")
	name := filepath.Base(compose(t).Secrets["tierq_admin_key"].File)
	for file, line := range map[string]string{".gitignore": "/" + name, ".dockerignore": name} {
		text, err := os.ReadFile(root + "/" + file)
		if err != nil || !slices.Contains(strings.Split(string(text), "\n"), line) {
			t.Errorf("%s does not leave out %s: %v", file, line, err)
		}
	}
	text, err := os.ReadFile(root + "/docker-compose.yml")
	if err != nil || strings.Contains(string(text), "tq_") {
		t.Errorf("the compose file has a key in it, %v", err)
	}
}

func TestComposeRefusesToStartWithoutPassword(t *testing.T) {
	t.Attr("proves", "S2-C1")
	for _, missing := range dotenv {
		name, _, _ := strings.Cut(missing, "=")
		kept := slices.DeleteFunc(slices.Clone(dotenv), func(s string) bool { return s == missing })
		for _, environ := range [][]string{kept, append(kept, name+"=")} {
			if _, err := loadCompose(t, environ...); err == nil || !strings.Contains(err.Error(), name) ||
				!strings.Contains(err.Error(), ".env") {
				t.Errorf("without %s: %v", name, err)
			}
		}
	}
	text, err := os.ReadFile(root + "/docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"MYSQL_ROOT_PASSWORD": 1, "MYSQL_TIERQ_PASSWORD": 2, "MYSQL_SCHEMA_PASSWORD": 2, "REDIS_PASSWORD": 4,
	} {
		uses := strings.Count(string(text), "${"+name)
		if strict := strings.Count(string(text), "${"+name+":?"); uses != want || strict != uses {
			t.Errorf("%d uses of %s, %d of them without a default; want %d and as many", uses, name, strict, want)
		}
	}
}

// A real Redis starts with the flags of the compose file.
func TestComposeRedisStarts(t *testing.T) {
	t.Attr("proves", "S2-C2")
	command := compose(t).Services["redis"].Command
	if len(command) == 0 || command[0] != "redis-server" {
		t.Fatalf("command %q", command)
	}
	password := slices.Index(command, "--requirepass") // testkit's own client has no password
	if password < 0 || command[password+1] != "a1b2c3" {
		t.Fatalf("Redis asks for no password: %q", command)
	}
	redis := testkit.NewRedis(t, slices.Delete(slices.Clone(command[1:]), password-1, password+1)...)
	for name, want := range map[string]string{
		"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction",
	} {
		if got := configOf(t, redis.Addr(), name); got != want {
			t.Errorf("%s is %q, want %s", name, got, want)
		}
	}
}

// configOf asks a Redis for one of its settings. The answer is a list of two: *2, $length, name, $length, value.
func configOf(t *testing.T, addr, name string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "CONFIG GET %s\r\n", name); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	for range 5 {
		if !lines.Scan() {
			t.Fatalf("CONFIG GET %s: the answer ends early: %v", name, lines.Err())
		}
	}
	return lines.Text()
}

// The compose file creates the MySQL users of docs/SECURITY.md, with the passwords that the processes use.
func TestComposeMySQLUsers(t *testing.T) {
	p := compose(t)
	s := p.Services["mysql"]
	if len(s.Configs) != 1 || !strings.HasPrefix(s.Configs[0].Target, "/docker-entrypoint-initdb.d/") ||
		!strings.HasSuffix(p.Configs[s.Configs[0].Source].File, "deploy/mysql/users.sh") {
		t.Fatalf("%+v, %+v", s.Configs, p.Configs)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `docker_process_sql() { cat; }; . ../../deploy/mysql/users.sh`)
	for name, value := range s.Environment {
		cmd.Env = append(cmd.Env, name+"="+*value)
	}
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(root + "/docs/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sql\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/SECURITY.md has no rights for SQL")
	}
	granted := strings.ReplaceAll(string(out), "`traffic_control_service_db`", "tierq")
	for line := range strings.Lines(string(block[1])) {
		if strings.HasPrefix(line, "GRANT") && !strings.Contains(granted, line) {
			t.Errorf("the script lacks %s", line)
		}
	}
	if n := strings.Count(granted, "GRANT"); n != 2 {
		t.Errorf("%d grants:\n%s", n, granted)
	}

	db, err := sql.Open("mysql", testkit.SharedMariaDB(t)+"?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	unique := strings.NewReplacer("'tierq'", "'compose_tierq'", "'tierq_schema'", "'compose_schema'")
	for range 2 { // a second run by hand must work too
		if _, err := db.ExecContext(t.Context(), unique.Replace(string(out))); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		_, _ = db.ExecContext(context.Background(), "DROP USER 'compose_tierq'@'%', 'compose_schema'@'%'")
	})
	dsn := testkit.SharedMariaDB(t)
	address := dsn[strings.LastIndexByte(dsn, '@') : strings.LastIndexByte(dsn, '/')+1]
	for user, password := range map[string]string{"compose_tierq": "p@ss/word:1", "compose_schema": `it's \ one`} {
		conn, err := sql.Open("mysql", user+":"+password+address)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.PingContext(t.Context()); err != nil {
			t.Errorf("%s: %v", user, err)
		}
		_ = conn.Close()
	}
}
