package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// row is a row of the table: what a handler does, and what is reported.
type row struct {
	behaviour, kind string
	in              string // the languages that have it
	want            want
	but             map[string]want // of languages that differ
	payload         string          // "" = the kind
	change          func(*job)
}

// Languages of rows. The pool is the server's own, whose handlers are in Go.
const (
	libraries = "go node python"
	everyone  = "go node python pool"
	inGo      = "go pool"
)

func on(behaviour, kind, in string, w want) row {
	return row{behaviour: behaviour, kind: kind, in: in, want: w}
}

func (r row) unless(differs per) row   { r.but = differs; return r }
func (r row) given(payload string) row { r.payload = payload; return r }
func (r row) as(change func(*job)) row { r.change = change; return r }

func (r row) name() string { return r.behaviour + "/" + r.kind }

func (r row) has(language string) bool { return slices.Contains(strings.Fields(r.in), language) }

func (r row) wants(language string) want {
	if w, differs := r.but[language]; differs {
		return w
	}
	return r.want
}

func (r row) input() string {
	if r.payload != "" {
		return r.payload
	}
	return fmt.Sprintf(`{"kind":%q}`, r.kind)
}

// table returns the rows of a language.
func table(language string) (rows []row) {
	for _, r := range slices.Concat(returnRows, payloadRows, errorRows, waitRows, tellRows, timeRows) {
		if r.has(language) {
			rows = append(rows, r)
		}
	}
	return rows
}

// named returns the rows of these names.
func named(rows []row, names ...string) (some []row) {
	for _, r := range rows {
		if slices.Contains(names, r.name()) {
			some = append(some, r)
		}
	}
	return some
}

type per = map[string]want

func endsIn(d time.Duration) func(*job) { return func(j *job) { j.endsIn = d } }

const replaced = "{\"a\uFFFDb\":[\"c\uFFFDd\"]}" // the value of the kinds SURROGATES, as it is stored

// noResult is a permanent failure, because the result is no JSON.
var noResult = final("result: ")

// What handlers return.
var returnRows = []row{
	on("RETURN", "JSON", everyone, completed(`{"a":[1,null,"é"]}`)),
	on("RETURN", "NOTHING", everyone, completed(`null`)),
	on("RETURN", "TUPLE", "python", completed(`[1,2]`)),
	on("RETURN", "HUGE", everyone, completed("")),
	// Node and Python leave it to the server to refuse such a result.
	on("RETURN", "LEVELS", everyone, noResult).unless(per{"node": completed(""), "python": completed("")}),
	on("RETURN", "NAN", everyone, noResult).unless(per{"node": completed(`{"n":null}`)}),
	on("RETURN", "INFINITE", everyone, noResult).unless(per{"node": completed(`[null]`)}),
	on("RETURN", "CYCLE", everyone, noResult),
	on("RETURN", "DEEP", everyone, noResult),
	on("RETURN", "FUNCTION", everyone, noResult),
	on("RETURN", "CHANNEL", inGo, noResult),
	on("RETURN", "SYMBOL", "node", noResult),
	on("RETURN", "BIGINT", "node", noResult),
	on("RETURN", "BIG_INTEGER", "python", noResult),
	on("RETURN", "SET", "python", noResult),
	on("RETURN", "BYTES", "python", noResult),
	on("RETURN", "OBJECT", "python", noResult),
	on("RETURN", "HOSTILE", "python", noResult),
	on("RETURN", "GENERATOR", "python", noResult),
	on("RETURN", "KEY_TUPLE", "python", noResult),
	on("RETURN", "KEY_NAN", "python", noResult),
	on("RETURN", "MARSHALLER_FAILS", everyone, noResult.holds("no text for this")),
	on("RETURN", "MARSHALLER_PANICS", "go node pool", noResult),
	on("RETURN", "RAW_NO_JSON", inGo, noResult),
	on("RETURN", "GETTER_THROWS", "node", noResult.holds("a getter throws")),
	// Whether these are promises is asked before the library has them: they throw.
	on("RETURN", "PROXY", "node", failed("a trap throws")),
	on("RETURN", "REVOKED", "node", failed("revoked")),
	on("RETURN", "THENABLE_THROWS", "node", failed("no then")),
	on("RETURN", "THENABLE_REJECTS", "node", failed("null")),
	on("RETURN", "THENABLE_TWICE", "node", completed(`"once"`)),
	on("RETURN", "SURROGATES", everyone, completed(replaced)),
	on("RETURN", "RAW_SURROGATES", inGo, completed(replaced)),
	on("RETURN", "RAW_INVALID", inGo, completed(replaced)),
	// The contract does not say which; a body must never have a name twice.
	on("RETURN", "NAME_TWICE", "go python", noResult.orCompleted()),
}

// Payloads, and types without a handler.
var payloadRows = []row{
	on("ECHO", "TEXT", everyone, completed(`"é"`)).given(`"é"`),
	on("ECHO", "SURROGATES", libraries, completed("\"a\uFFFDb\"")).given(`"a\ud800b"`),
	on("ECHO", "BIG_INTEGER", libraries, final("payload: ")).unless(per{"node": completed("")}).
		given(`{"n":1` + strings.Repeat("0", 5000) + `}`),
	on("ECHO", "DEEP", libraries, completed("")). // a server takes no body of more than 32 levels
							given(strings.Repeat("[", 30) + strings.Repeat("]", 30)),
	on("GOOD", "WRONG_TYPE", "go", final("payload: ")).given(`{"n":"x"}`),
	on("NOBODY", "UNKNOWN", libraries, failed("NOBODY").of("UNKNOWN_JOB_TYPE")),
	on("__proto__", "UNKNOWN", libraries, failed("__proto__").of("UNKNOWN_JOB_TYPE")),
	on("constructor", "UNKNOWN", libraries, failed("constructor").of("UNKNOWN_JOB_TYPE")),
}
