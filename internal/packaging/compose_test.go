// Package packaging holds docker-compose.yml and the Dockerfile to what the docs say of them. It is read by its tests only.
package packaging

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
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
	options, err := cli.NewProjectOptions([]string{root + "/docker-compose.yml"}, cli.WithEnv(environ), cli.WithWorkingDirectory(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}

// dotenv is the .env of somebody who did what the head of docker-compose.yml says.
var dotenv = []string{"MYSQL_ROOT_PASSWORD=p@ss/word:1", "MYSQL_DATABASE=traffic_control_service_db"}

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
	if names := p.ServiceNames(); !slices.Equal(names, []string{"mysql", "redis", "server"}) {
		t.Fatalf("services %q", names)
	}
	for name, data := range map[string]string{"server": "/data", "redis": "/data", "mysql": "/var/lib/mysql"} {
		s := p.Services[name]
		if s.HealthCheck == nil || len(s.HealthCheck.Test) < 2 || s.HealthCheck.StartPeriod == nil {
			t.Errorf("%s has no health check with a start period", name)
			continue
		}
		// The first start of MySQL takes 10 to 15 s, on a slow disk much more.
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
	for _, name := range []string{"redis", "mysql"} {
		if needs[name].Condition != types.ServiceConditionHealthy {
			t.Errorf("the server does not wait for %s to be healthy", name)
		}
	}
}

func TestComposeIsOnLoopbackOnly(t *testing.T) {
	t.Attr("proves", "S2-N15")
	for name, s := range compose(t).Services {
		if len(s.Ports) == 0 {
			t.Errorf("%s is not published", name)
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

// What the server is given is what the server knows, and it starts with it.
func TestComposeServerSettings(t *testing.T) {
	t.Attr("proves", "S2-C1")
	s := compose(t).Services["server"]
	var environ []string
	for name, text := range s.Environment {
		known := slices.ContainsFunc(config.Settings(), func(s config.Setting) bool { return s.Name == name || s.Secret && s.Name+"_FILE" == name })
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
	if want := "root:p@ss/word:1@tcp(mysql:3306)/traffic_control_service_db"; c.MySQLDSN != want {
		t.Errorf("MYSQL_DSN=%s, want %s", c.MySQLDSN, want)
	}
	if c.Embedded() || c.RedisURL != "redis://redis:6379/0" || c.Insecure || c.AdminKey == "" || !strings.HasPrefix(c.Addr, "0.0.0.0:") {
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
		own := slices.Contains([]string{"TIERQ_DATA_DIR", "TIERQ_ADMIN_KEY"}, setting.Name) // the image's, and a file
		if _, passed := s.Environment[setting.Name]; !passed && !own {
			t.Errorf("%s of .env does not reach the server", setting.Name)
		}
	}
}

// adminKey stands in for the file that the server is given its admin key in.
func adminKey(t *testing.T, path string) *string {
	t.Helper()
	p := compose(t)
	mounted := p.Services["server"].Secrets
	if len(mounted) != 1 || path != "/run/secrets/"+mounted[0].Source || p.Secrets[mounted[0].Source].File == "" {
		t.Errorf("%s is none of the secrets %+v, %+v", path, mounted, p.Secrets)
	}
	file := filepath.Join(t.TempDir(), "admin.key")
	if err := os.WriteFile(file, []byte("tq_abcdefghijklmn27_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_A\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &file
}

// The admin key is in no image and no commit, and there is no default one.
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
			if _, err := loadCompose(t, environ...); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), ".env") {
				t.Errorf("without %s: %v", name, err)
			}
		}
	}
	text, err := os.ReadFile(root + "/docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	uses := strings.Count(string(text), "${MYSQL_ROOT_PASSWORD")
	if strict := strings.Count(string(text), "${MYSQL_ROOT_PASSWORD:?"); uses != 2 || strict != uses {
		t.Errorf("%d uses of MYSQL_ROOT_PASSWORD, %d of them without a default; want 2 and 2", uses, strict)
	}
}

// The flags of the compose file's Redis, given to a real one.
func TestComposeRedisStarts(t *testing.T) {
	t.Attr("proves", "S2-C2")
	command := compose(t).Services["redis"].Command
	if len(command) == 0 || command[0] != "redis-server" {
		t.Fatalf("command %q", command)
	}
	redis := testkit.NewRedis(t, command[1:]...)
	for name, want := range map[string]string{
		"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "hash-max-listpack-value": "1024",
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
