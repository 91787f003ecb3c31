package conformance

import "time"

// noWait is a failure after a wait that is no number of seconds: the tier's backoff, and both texts.
var noWait = failed("busy")

// noDelay is a failure after a Later that is no number of seconds.
var noDelay = failed("").starts("later: wants a number of seconds, got ")

func seconds(n string) string { return `{"kind":"SECONDS","seconds":` + n + `}` }

// RetryAfter and Later.
var waitRows = []row{
	on("RETRY_AFTER", "SECONDS", everyone, failed("busy").after(5)).given(seconds("5")),
	on("RETRY_AFTER", "DAYS", everyone, failed("busy").after(mostRetry)).given(seconds("100000")),
	on("RETRY_AFTER", "FRACTION", libraries, failed("busy").after(2)),
	on("RETRY_AFTER", "ZERO", libraries, failed("busy").after(0)),
	on("RETRY_AFTER", "NEGATIVE", libraries, failed("busy").after(0)),
	on("RETRY_AFTER", "LEAST", libraries, failed("busy").after(0)),
	on("RETRY_AFTER", "INFINITE", everyone, failed("busy").after(mostRetry)),
	on("RETRY_AFTER", "NAN", "node python", noWait),
	on("RETRY_AFTER", "NONE", "node python", noWait),
	on("RETRY_AFTER", "UNDEFINED", "node", noWait),
	on("RETRY_AFTER", "TEXT", "node python", noWait),
	on("RETRY_AFTER", "OBJECT", "node python", noWait),
	on("RETRY_AFTER", "LIST", "python", noWait),
	on("RETRY_AFTER", "BIGINT", "node", noWait.orAfter(5)),
	on("RETRY_AFTER", "SYMBOL", "node", noWait),
	on("RETRY_AFTER", "NULL_PROTOTYPE", "node", noWait),
	on("RETRY_AFTER", "HOSTILE", "python", noWait.orAfter(5)),
	on("RETRY_AFTER", "COMPLEX", "python", noWait),
	on("RETRY_AFTER", "DECIMAL_NAN", "python", noWait),
	on("RETRY_AFTER", "HUGE_INTEGER", "python", failed("busy").after(mostRetry)),
	on("RETRY_AFTER", "TIMEDELTA", "python", failed("busy").after(90)),
	on("RETRY_AFTER", "LONG_TIMEDELTA", "python", failed("busy").after(mostRetry)),
	on("RETRY_AFTER", "NEGATIVE_TIMEDELTA", "python", failed("busy").after(0)),
	on("RETRY_AFTER", "NOTHING", everyone, failed("retry after: the handler gave no error").after(5)),
	on("RETRY_AFTER", "MESSAGE_NONE", "python", failed("retry after: the handler gave no error").after(5)),
	on("RETRY_AFTER", "MESSAGE_NULL", "node", failed("retry after: the handler gave no error").after(5)),
	on("RETRY_AFTER", "MESSAGE_HOSTILE", "python", failed("").after(5)),
	on("RETRY_AFTER", "TYPED_NIL", inGo, failed("").after(5)),
	on("RETRY_AFTER", "HOSTILE", inGo, failed("").after(5)),
	// The constructor itself throws here: Error makes a string of its argument.
	on("RETRY_AFTER", "HOSTILE", "node", failed("").orAfter(5)),

	on("LATER", "SECONDS", everyone, released(5)).given(seconds("5")),
	on("LATER", "FRACTION", libraries, released(2)),
	on("LATER", "ZERO", libraries, released(1)),
	on("LATER", "NEGATIVE", libraries, released(1)),
	on("LATER", "LEAST", libraries, released(1)),
	on("LATER", "INFINITE", libraries, released(mostLater)),
	on("LATER", "YEARS", libraries, released(mostLater)).given(seconds("100000000")),
	on("LATER", "NAN", "node python", noDelay),
	on("LATER", "NONE", "node python", noDelay),
	on("LATER", "UNDEFINED", "node", noDelay),
	on("LATER", "TEXT", "node python", noDelay),
	on("LATER", "OBJECT", "node python", noDelay),
	on("LATER", "LIST", "python", noDelay),
	on("LATER", "SYMBOL", "node", noDelay),
	on("LATER", "NULL_PROTOTYPE", "node", noDelay),
	on("LATER", "COMPLEX", "python", noDelay),
	on("LATER", "DECIMAL_NAN", "python", noDelay),
	on("LATER", "HOSTILE", "python", noDelay),
	on("LATER", "HUGE_INTEGER", "python", released(mostLater)),
	on("LATER", "TIMEDELTA", "python", released(90)),
	on("LATER", "LONG_TIMEDELTA", "python", released(mostLater)),
	on("LATER", "REASON", everyone, released(5).holds("not yet")),
	on("LATER", "REASON_HUGE", everyone, released(5).starts("éé")),
	on("LATER", "REASON_SURROGATES", everyone, released(5).starts("a\uFFFD")),
	on("LATER", "REASON_NUMBER", "node python", released(5)),
	on("LATER", "REASON_NONE", "python", released(5)),
	on("LATER", "REASON_HOSTILE", "python", released(5)),
	// The constructor itself may throw here: Error makes a string of its argument.
	on("LATER", "REASON_SYMBOL", "node", released(5).orFailed()),
	on("LATER", "REASON_OBJECT", "node", released(5).orFailed()),
}

const overtime = 2500 * time.Millisecond

// What handlers do with the time.
var timeRows = []row{
	on("OVERTIME", "PLAIN", libraries, failed("gave up").of("MAX_TIME_EXCEEDED")).as(endsIn(overtime)),
	on("OVERTIME", "CAUSE", libraries, failed("").of("MAX_TIME_EXCEEDED")).as(endsIn(overtime)),
	on("OVERTIME", "PERMANENT", libraries, final("gave up")).as(endsIn(overtime)),
	on("OVERTIME", "LATER", libraries, released(7)).as(endsIn(overtime)),
	on("BLOCK", "LONG", libraries, completed(`{"blocked":true}`)).given(`{"seconds":8}`),
}
