package attack

import (
	"context"
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/testkit"
)

// elsewhere are the attacks that need another set-up than one server over the network, and who tries them.
func elsewhere() []Attack {
	return []Attack{
		{ID: "A07", What: "tell wrong keys apart by time",
			why: "no measurement over a network is a verdict; the comparison's path is tested in internal/auth"},
		{ID: "A23", What: "a PDF of a million pages, images that unpack to gigabytes",
			why: "it is the worker that is attacked; tested in internal/handlers"},
		{ID: "A28", What: "the operators' listener from another machine", why: "it needs a second listener; tested in internal/e2e"},
		{ID: "A31", What: "many keys from one address, one key from many", why: "it needs settings and proxies; tested in internal/auth"},
		{ID: "A37", What: "redirects into the network", why: "it needs a server outside of it; tested in internal/outbound"},
		{ID: "A48", What: "stores with a wrong certificate", why: "it needs other stores; tested in internal/e2e"},
		{ID: "A49", What: "no administrator's key, an empty or malformed one", try: badAdminKeys},
		{ID: "A52", What: "a webhook's answer without end", why: "it needs a server outside; tested in internal/outbound"},
		{ID: "A53", What: "a mail server that talks without end", why: "it needs that mail server; tested in internal/mail"},
		{ID: "A64", What: "every text that ever broke a parser", why: "`make fuzz`, and every run of the tests"},
	}
}

// badAdminKeys starts the program in ways that it must refuse.
func badAdminKeys(ctx context.Context, t *Target, x *trial) {
	if t.bin == "" {
		x.absent = "it needs the program; tested in internal/e2e"
		return
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	for what, setting := range map[string]string{
		"a key that is none": "TIERQ_ADMIN_KEY=admin", "a key of another form": "TIERQ_ADMIN_KEY=tq_aaaa_bbbb",
		"an empty secret":          "TIERQ_ADMIN_KEY=tq_aaaaaaaaaaaaaaaa_",
		"a file that is not there": "TIERQ_ADMIN_KEY_FILE=/nowhere/key",
	} {
		env := append(slices.DeleteFunc(slices.Clone(t.env), func(s string) bool { return strings.HasPrefix(s, "TIERQ_ADMIN_KEY=") }), setting)
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
		case code == 0:
			x.fail("%s: it ends with 0", what)
		default:
			x.note(what, "refuses to start")
		}
	}
}
