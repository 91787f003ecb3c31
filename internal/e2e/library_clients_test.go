package e2e

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// A program of each language tells one story of schedules, batches, flows and logs to a server, with the client and the
// worker of its library, and learns the same.
func TestClientLibraries(t *testing.T) {
	t.Parallel()
	says, err := os.ReadFile(filepath.Join("testdata", "libraries", "client.says.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(says)), "\n")
	for _, language := range []string{"node", "python"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("testdata", "libraries", "client."+language+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			s := startServer(t, testkit.BuildTierq(t), "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+t.TempDir())
			s.changes(http.MethodPut, "/admin/queues/parts", `{}`, 200)
			program := workerOf(t, language, string(text)).start(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			if code, err := program.WaitExit(ctx); err != nil || code != 0 {
				t.Fatalf("exit %d, %v, after\n%s", code, err, program.Output())
			}
			got := strings.Split(strings.TrimSpace(program.Output()), "\n")
			for i := range max(len(got), len(want)) {
				if g, w := at(got, i), at(want, i); g != w {
					t.Errorf("line %d is %q, not %q", i+1, g, w)
				}
			}
		})
	}
}

// at returns an entry of a list; "" if the list is shorter.
func at(list []string, i int) string {
	if i >= len(list) {
		return ""
	}
	return list[i]
}
