package attack

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/testkit"
)

// elsewhere returns the attacks that need another set-up than one server over the network, with the tests that try
// them.
func elsewhere() []Attack {
	return []Attack{
		{ID: "A07", What: "tell wrong keys apart by time",
			why: "no measurement over a network is a verdict; TestOnePathForEveryKey tries the comparison's path"},
		{ID: "A23", What: "a PDF of a million pages, images that unpack to gigabytes",
			why: "it is the worker that is attacked; TestPDFRefuses tries it"},
		{
			ID:   "A28",
			What: "the operators' listener from another machine",
			why:  "it needs a second listener; TestOps_WhoGetsIn tries it",
		},
		{ID: "A31", What: "many keys from one address, one key from many",
			why: "it needs settings and proxies; TestRates_OfAnAddress tries it"},
		{
			ID:   "A37",
			What: "redirects into the network",
			why:  "it needs a server outside of it; TestRedirectsIntoTheHouse tries it",
		},
		{ID: "A48", What: "stores with a wrong certificate", why: "it needs other stores; TestTLSToTheStores tries it"},
		{ID: "A49", What: "no administrator's key, an empty or malformed one", try: badAdminKeys},
		{
			ID:   "A52",
			What: "a webhook's answer without end",
			why:  "it needs a server outside; TestHostileAnswers tries it",
		},
		{
			ID:   "A53",
			What: "a mail server that talks without end",
			why:  "it needs that mail server; TestEndlessReplies tries it",
		},
		{
			ID:   "A64",
			What: "every text that ever broke a parser",
			why:  "`make fuzz`, and every run of the tests; TestCorporaBelongToTargets sees that they are run",
		},
		{
			ID:   "A68",
			What: "ways in beside a plain submit, past the limits: flows, batches, schedules, requeues",
			why:  "it needs small limits; TestWaysIn_Limits tries each way against each limit",
		},
	}
}

// wrongSettings is the program's exit code for wrong settings.
const wrongSettings = 2

// badAdminKeys starts the program with settings of the admin key that it must refuse.
func badAdminKeys(ctx context.Context, t *Target, x *trial) {
	if t.bin == "" {
		x.absent = "it needs the program; TestAdminKey tries it"
		return
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	dir, err := os.MkdirTemp("", "tierq-attack-")
	if err != nil {
		x.fail("make a folder: %v", err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		x.fail("write an empty file: %v", err)
		return
	}
	for what, setting := range map[string]string{
		"a key that is none": "TIERQ_ADMIN_KEY=admin", "a key of another form": "TIERQ_ADMIN_KEY=tq_aaaa_bbbb",
		"an empty secret":          "TIERQ_ADMIN_KEY=tq_aaaaaaaaaaaaaaaa_",
		"a file that is not there": "TIERQ_ADMIN_KEY_FILE=/nowhere/key", "an empty file": "TIERQ_ADMIN_KEY_FILE=" + empty,
	} {
		// The running server's own key must not be the reason of the refusal.
		env := append(slices.DeleteFunc(slices.Clone(t.env),
			func(s string) bool { return strings.HasPrefix(s, "TIERQ_ADMIN_KEY=") }),
			"TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+filepath.Join(dir, "data"), setting)
		p, err := testkit.LaunchProcess(t.bin, env, "serve")
		if err != nil {
			x.fail("start: %v", err)
			return
		}
		code, err := p.WaitExit(ctx)
		_ = p.Kill()
		switch {
		case err != nil:
			x.fail("%s: it starts", what)
		case code != wrongSettings || !strings.Contains(p.Output(), "TIERQ_ADMIN_KEY"):
			x.fail("%s: it ends with %d, and says %s", what, code, p.Output())
		default:
			x.note(what, "refuses to start")
		}
	}
}
