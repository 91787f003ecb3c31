package packaging

import (
	"strconv"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/config"
)

// The seeds' ports, and a separate process for each role, need only settings and no code. The stores are at the
// addresses in the settings.
func TestPorts(t *testing.T) {
	t.Attr("proves", "S0-N6 S1-N4 S4-E7")
	for port, roles := range map[int]string{8080: "api", 8081: "recovery", 8082: "worker", 8083: "api,worker,recovery"} {
		addr := "127.0.0.1:" + strconv.Itoa(port)
		c, err := config.Load([]string{
			"TIERQ_ADDR=" + addr, "TIERQ_ROLES=" + roles, "REDIS_URL=redis://127.0.0.1:6380/0",
			"MYSQL_DSN=tierq:secret@tcp(127.0.0.1:5436)/tierq",
		}, "", nil)
		if err != nil {
			t.Errorf("%d: %v", port, err)
			continue
		}
		if c.Addr != addr || c.Roles.String() != roles || !strings.Contains(c.MySQLDSN, ":5436)") ||
			!strings.Contains(c.RedisURL, ":6380/") {
			t.Errorf("%d: %v", port, c)
		}
	}
	c, err := config.Load(nil, "", nil)
	if err != nil || c.Addr != "127.0.0.1:8080" {
		t.Errorf("unset: %v, %v", c.Addr, err)
	}
}

// One command starts the server with its stores, and each has a health check. Without Docker the binary alone is
// enough.
func TestOneCommand(t *testing.T) {
	t.Attr("proves", "S0-P10 S1-P8 S4-D1 S4-O3")
	p := compose(t)
	for name, s := range p.Services {
		if s.HealthCheck == nil || s.HealthCheck.Disable || len(s.HealthCheck.Test) < 2 || s.HealthCheck.Interval == nil ||
			s.HealthCheck.Timeout == nil {
			t.Errorf("%s is never asked whether it is well", name)
		}
		if len(s.Profiles) > 0 || s.Scale != nil && *s.Scale == 0 {
			t.Errorf("%s is not started by a plain up", name)
		}
		built := name == "server" || name == "schema"
		if (s.Build == nil) == built || !built && s.Image == "" {
			t.Errorf("%s is neither built here nor an image", name)
		}
	}
	if s := p.Services["server"]; s.Build == nil || s.Build.Context == "" || s.HealthCheck.Test[1] != "/tierq" {
		t.Errorf("the server: %+v", s.Build)
	}
	c, err := config.Load(nil, "", nil)
	if err != nil || !c.Embedded() {
		t.Errorf("with nothing set it needs stores: %v", err)
	}
}
