//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Enabled says whether this build has failpoints.
const Enabled = true

var points = mustParse(take("TIERQ_FAILPOINTS"))

// take reads a variable and removes it from the environment, because the settings refuse variables that they do
// not know.
func take(name string) string {
	defer os.Unsetenv(name) //nolint:errcheck // the name is valid
	return os.Getenv(name)
}

func mustParse(spec string) map[string]*point {
	parsed, err := parse(spec)
	if err != nil {
		fmt.Fprintln(os.Stderr, "TIERQ_FAILPOINTS:", err)
		os.Exit(2)
	}
	return parsed
}

// Hit marks a point that the jobs ids pass, and does what TIERQ_FAILPOINTS sets for it. A killed process does not
// return. Hit may be called by several goroutines at once.
func Hit(name string, ids ...job.ID) {
	p := points[name]
	if p == nil {
		return
	}
	if n := p.hits.Add(1); p.only != 0 && n != p.only {
		return
	}
	var line strings.Builder
	fmt.Fprintf(&line, "failpoint %s hit pid=%d", name, os.Getpid())
	for i, id := range ids {
		line.WriteString([]string{" jobs=", ","}[min(i, 1)])
		line.WriteString(string(id))
	}
	line.WriteByte('\n')
	_, _ = os.Stderr.WriteString(line.String())
	p.act()
}

func (p *point) act() {
	switch p.action {
	case kill:
		Kill()
	case stop:
		standStill()
	case sleep:
		<-time.After(p.pause)
	}
}

// Kill ends this process as kill -9 does: nothing is flushed and no deferred call runs.
func Kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is under way; nothing may happen before it arrives
}
