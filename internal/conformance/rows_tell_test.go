package conformance

const (
	first = `{"step":1}`
	last  = `{"last":true}`
)

func flow(j *job) { j.more = map[string]any{"flowId": "flow-1"} }

// saved, told, logged: rows whose handler completes whatever it hands over.
var (
	told0  = completed("").tells("0")
	line1  = completed("").logs()
	oddity = completed("")
)

// Checkpoints, progress, lines of logs, waits, and questions about flows.
var tellRows = []row{
	on("SAVE", "GOOD", libraries, partly(`"raised":false`).saves(first, last)),
	on("SAVE", "SURROGATES", libraries, partly(`"raised":false`).saves(replaced, last)),
	on("SAVE", "RAW_SURROGATES", "go", partly(`"raised":false`).saves(replaced, last)),
	on("SAVE", "RAW_INVALID", "go", partly(`"raised":false`).saves(replaced, last)),
	on("SAVE", "GOOD", "pool", partly(`"raised":false`)),
	on("SAVE", "NAN", everyone, raised()),
	on("SAVE", "INFINITE", everyone, raised()),
	on("SAVE", "CYCLE", everyone, raised()),
	on("SAVE", "DEEP", everyone, raised()),
	on("SAVE", "LEVELS", libraries, raised()),
	on("SAVE", "HUGE", everyone, raised()),
	on("SAVE", "FUNCTION", everyone, raised()),
	on("SAVE", "MARSHALLER_FAILS", everyone, raised()),
	on("SAVE", "MARSHALLER_PANICS", "go node pool", raised()),
	on("SAVE", "CHANNEL", inGo, raised()),
	on("SAVE", "RAW_NO_JSON", inGo, raised()),
	on("SAVE", "NAME_TWICE", "go python", raised()),
	on("SAVE", "NAME_TWICE_MARSHALLER", "go", raised()),
	on("SAVE", "UNDEFINED", "node", raised()),
	on("SAVE", "BIGINT", "node", raised()),
	on("SAVE", "SYMBOL", "node", raised()),
	on("SAVE", "GETTER_THROWS", "node", raised()),
	on("SAVE", "PROXY", "node", raised()),
	on("SAVE", "REVOKED", "node", raised()),
	on("SAVE", "SET", "python", raised()),
	on("SAVE", "BYTES", "python", raised()),
	on("SAVE", "HOSTILE", "python", raised()),
	on("SAVE", "BIG_INTEGER", "python", raised()),
	on("SAVE", "KEY_TUPLE", "python", raised()),
	on("SAVE", "KEY_NAN", "python", raised()),
	on("SAVE", "GENERATOR", "python", raised()),

	on("PROGRESS", "NAN", "node python", told0),
	on("PROGRESS", "NEGATIVE", libraries, told0),
	on("PROGRESS", "TEXT", "node python", oddity),
	on("PROGRESS", "INFINITE", "node python", completed("").tells("9007199254740991")),
	on("PROGRESS", "HUGE", libraries, completed("").tells("9007199254740991")),
	on("PROGRESS", "FRACTION", "node python", oddity),
	on("PROGRESS", "NOTHING", "node", oddity),
	on("PROGRESS", "NONE", "python", oddity),
	on("PROGRESS", "HOSTILE", "python", oddity),
	on("PROGRESS", "DECIMAL", "python", oddity),
	on("PROGRESS", "BIGINT", "node", oddity),
	on("PROGRESS", "SYMBOL", "node", oddity),
	on("PROGRESS", "NOTE_HUGE", libraries, completed("").tells("1")),
	on("PROGRESS", "NOTE_SURROGATES", libraries, completed("").tells("1")),
	on("PROGRESS", "NOTE_OBJECT", "node", oddity),

	on("LOG", "CYCLE", "node python", line1),
	on("LOG", "NAN", "node python", line1),
	on("LOG", "ATTRS", "go", line1),
	on("LOG", "ATTRS_PANIC", "go", line1),
	on("LOG", "VALUE_PANICS", "go", line1),
	on("LOG", "ATTRS", "pool", oddity),
	on("LOG", "ATTRS_PANIC", "pool", oddity),
	on("LOG", "VALUE_PANICS", "pool", oddity),
	on("LOG", "NAME_TWICE", "go python", line1),
	on("LOG", "ODD_PAIRS", "go", line1),
	on("LOG", "SURROGATES", libraries, line1),
	on("LOG", "HUGE", libraries, line1),
	on("LOG", "DEEP", "node python", line1),
	on("LOG", "BIGINT", "node", line1),
	on("LOG", "GETTER", "node", line1),
	on("LOG", "PROXY", "node", line1),
	on("LOG", "TO_JSON", "node", line1),
	on("LOG", "TEXT_SYMBOL", "node", line1),
	on("LOG", "TEXT_OBJECT", "node", line1),
	on("LOG", "NOTHING", "node", line1),
	on("LOG", "ATTRS_TEXT", "node", line1),
	on("LOG", "SET", "python", line1),
	on("LOG", "HOSTILE", "python", line1),
	on("LOG", "HOSTILE_DICT", "python", line1),
	on("LOG", "TEXT_HOSTILE", "python", line1),
	on("LOG", "TEXT_NONE", "python", line1),
	on("LOG", "TEXT_PERCENT", "python", line1),
	on("LOG", "BIG_INTEGER", "python", line1),

	on("WAIT", "NAN", "python", partly(`"raised":true`)),
	on("WAIT", "NONE", "python", partly(`"raised":true`)),
	on("WAIT", "TEXT", "python", partly(`"raised":true`)),
	on("WAIT", "NEGATIVE", "python", oddity),
	on("WAIT", "HOSTILE", "python", oddity),
	on("WAIT", "HUGE", "python", partly(`"raised":true`)).as(endsIn(overtime)),
	on("WAIT", "INFINITE", "python", partly(`"raised":true`)).as(endsIn(overtime)),
	on("WAIT", "HUGE_INTEGER", "python", partly(`"raised":true`)).as(endsIn(overtime)),

	on("FLOW", "INPUTS", libraries, partly(`"raised":false`)).as(flow),
	on("FLOW", "INPUT_ODD", libraries, oddity).as(flow),
	on("FLOW", "INPUT_SYMBOL", "node", oddity).as(flow),
	on("FLOW", "INPUT_OBJECT", "node python", oddity).as(flow),
	on("FLOW", "INPUT_NONE", "python", oddity).as(flow),
	on("FLOW", "ADD_CYCLE", libraries, partly(`"raised":true`)).as(flow),
	on("FLOW", "ADD_NAN", "go python", partly(`"raised":true`)).as(flow),
	on("FLOW", "ADD_PANICS", "go", partly(`"raised":true`)).as(flow),
	on("FLOW", "ADD_BIGINT", "node", partly(`"raised":true`)).as(flow),
	on("FLOW", "ADD_NAME_TWICE", "python", partly(`"raised":true`)).as(flow),
	on("FLOW", "ADD_NOTHING", "node python", oddity).as(flow),
	on("FLOW", "ADD_SURROGATES", "node python", oddity).as(flow),
}
