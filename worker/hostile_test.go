package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// The errors and values of handlers that mean no good.
type (
	silentError struct{ text *string } // Error panics if text is nil, and for a nil pointer
	loudError   struct{}               // Error panics with a value whose Error panics
	asError     struct{}
	unwrapError struct{}
	circleError struct{} // those of it contain themselves
	exitError   struct{}
	badString   struct{}
	badJSON     struct{ fails error } // nil = MarshalJSON panics
	badLog      struct{ slog.Handler }
)

func (e *silentError) Error() string     { return *e.text }
func (e loudError) Error() string        { panic(e) }
func (asError) Error() string            { return "as" }
func (asError) As(any) bool              { panic("As panics") }
func (unwrapError) Error() string        { return "unwrap" }
func (unwrapError) Unwrap() error        { panic("Unwrap panics") }
func (circleError) Error() string        { return "circle" }
func (e circleError) Is(error) bool      { panic("Is panics") }
func (exitError) Error() string          { runtime.Goexit(); return "" }
func (badString) String() string         { panic(badString{}) }
func (v badString) LogValue() slog.Value { return slog.GroupValue(slog.Any("again", v)) }
func (v badJSON) MarshalJSON() ([]byte, error) {
	if v.fails == nil {
		panic("MarshalJSON panics")
	}
	return nil, v.fails
}
func (*badJSON) UnmarshalJSON([]byte) error              { panic("UnmarshalJSON panics") }
func (badLog) Handle(context.Context, slog.Record) error { panic("the log panics") }
func (badLog) WithAttrs([]slog.Attr) slog.Handler        { panic("WithAttrs panics") }
func (badLog) WithGroup(string) slog.Handler             { panic("WithGroup panics") }

type circleOne struct{ circleError }

func (e circleOne) Unwrap() error { return e }

type circleMany struct{ circleError }

func (e circleMany) Unwrap() []error { return []error{e, e} }

func circular() any {
	v := []any{nil}
	v[0] = v
	return v
}

// Whatever a handler does costs at most its own attempt.
func TestHandle_Hostile(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	raw := func(text string) any { return json.RawMessage(text) }
	failing := errors.New("broken")
	type end struct {
		do   func() (any, error)
		want string
	}
	fails := func(err error, want string) end { return end{func() (any, error) { return nil, err }, want} }
	gives := func(v any, want string) end { return end{func() (any, error) { return v, nil }, want} }
	panics := func(v any, want string) end { return end{func() (any, error) { panic(v) }, want} }
	const noJSON = `"failed":{"error":{"message":"result: `
	ends := map[string]end{
		"circle":         gives(circular(), noJSON),
		"NaN":            gives(math.NaN(), noJSON),
		"channel":        gives(make(chan int), noJSON),
		"marshal panics": gives(badJSON{}, noJSON+`its marshaller panics: MarshalJSON panics"},"permanent":true}`),
		"marshal fails":  gives(badJSON{&silentError{}}, noJSON),
		"marshal later":  gives(badJSON{Later(time.Hour)}, noJSON),
		"no UTF-8":       gives(map[string]string{"a\xff": "b\xfe"}, `"completed":{"result":{"a\ufffd":"b\ufffd"}}`),
		"raw no UTF-8":   gives(raw("[\"\xff\"]"), `"completed":{"result":["`+"\uFFFD"+`"]}`),
		"half a pair": gives(raw(`["\ud800","\udc00x","\ud83d\ude00\\ud800"]`),
			`"result":["\ufffd","\ufffdx","\ud83d\ude00\\ud800"]`),
		"empty raw":      gives(raw(""), noJSON),
		"typed nil":      fails((*silentError)(nil), `"message":"*worker.silentError, whose text cannot be read: `),
		"no text":        fails(errors.New(""), `"message":"*errors.errorString without a text"`),
		"Error panics":   fails(&silentError{}, `"message":"*worker.silentError, whose text cannot be read: `),
		"Error's panics": fails(loudError{}, `"message":"worker.loudError, whose text cannot be read`),
		"Error exits":    fails(exitError{}, `"failed":{"error":{"message":"the handler called runtime.Goexit"`),
		"As panics":      fails(asError{}, `"failed":{"error":{"message":"as"}}`),
		"Unwrap panics":  fails(unwrapError{}, `"failed":{"error":{"message":"unwrap"}}`),
		"Unwrap circles": fails(circleOne{}, `"failed":{"error":{"message":"circle"}}`),
		"Unwraps circle": fails(circleMany{}, `"failed":{"error":{"message":"circle"}}`),
		"permanent":      fails(Permanent(unwrapError{}), `"message":"unwrap"},"permanent":true}`),
		"permanent typed": fails(fmt.Errorf("a: %w", Permanent((*silentError)(nil))),
			`"message":"a: *worker.silentError, whose`),
		"permanent nil": fails(Permanent(nil), `"message":"permanent: the handler gave no error"},"permanent":true}`),
		"retry nil": fails(RetryAfter(time.Minute, nil),
			`"message":"retry after: the handler gave no error"},"retryAfterSeconds":60}`),
		"retry before now": fails(RetryAfter(-time.Hour, failing), `"retryAfterSeconds":0}`),
		"retry too late":   fails(RetryAfter(math.MaxInt64, failing), `"broken"},"retryAfterSeconds":86400}`),
		"later too late":   fails(Later(math.MaxInt64), `"released":{"delaySeconds":31536000}`),
		"later's reason": fails(LaterBecause(-1, strings.Repeat("\xffü", 5000)),
			`"released":{"delaySeconds":1,"reason":"`+strings.Repeat("\uFFFDü", 102)+`"}`),
		"huge": fails(errors.New(strings.Repeat("\xffü", 1<<20)), `"message":"`+strings.Repeat("\uFFFDü", 819)+`"}`),
		"exit": {func() (any, error) { runtime.Goexit(); return 1, nil },
			`"message":"the handler called runtime.Goexit","stack":"gor`},
		"text":     panics(badString{}, `"message":"worker.badString, whose text cannot be read`),
		"circular": panics(circular(), `"message":"[]interface {}","type":"panic"`),
		"values":   panics(map[string]any{"a": 1}, `"message":"map[string]interface {} {\"a\":1}","type":"panic"`),
		"number":   panics(7, `"message":"7","type":"panic"`),
		"nil":      panics(nil, `"message":"panic called with nil argument`),
		"exits":    panics(exitError{}, `"message":"the handler called runtime.Goexit"`),
	}
	s.worker(func(w *Worker) {
		for typ, e := range ends {
			Handle(w, typ, func(context.Context, json.RawMessage) (any, error) { return e.do() })
		}
		Handle(w, "RESIZE", double)
		Handle(w, "bad", func(context.Context, badJSON) (any, error) { return nil, nil })
	}, WithConcurrency(3))
	for typ := range ends {
		s.add(typ, typ, `{}`)
	}
	s.add("good", "RESIZE", `{"Width":1}`)
	s.add("payload", "bad", `{}`)
	for typ, e := range ends {
		got := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(s.reported(typ))
		if !strings.Contains(got, e.want) || !utf8.ValidString(got) || len(got) > 3*mostText {
			t.Errorf("%s: %.300s (%d bytes), not %.300s", typ, got, len(got), e.want)
		}
	}
	if got := s.reported("good"); got != doubled(1) {
		t.Errorf("a good job: %s", got)
	}
	if got := s.reported("payload"); !strings.Contains(got, `"message":"payload: its unmarshaller panics: Unmarsh`) {
		t.Errorf("a payload whose UnmarshalJSON panics: %s", got)
	}
}

// A line keeps its text, whatever its attributes are, and whatever the program's own log does.
func TestLogger_Hostile(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.add("1", "LOG", `{}`)
	s.worker(func(w *Worker) {
		Handle(w, "LOG", func(ctx context.Context, _ size) (any, error) {
			log := Logger(ctx)
			log.Info("circle", "a", circular(), "n", math.NaN(), "f", func() {})
			log.Info("panics", "a", badJSON{}, "e", &silentError{}, "l", loudError{}, "s", badString{})
			log.With("a", circular()).WithGroup("g").Info("with", "a", badString{})
			log.Info("twice", "a", 1, "a", 2)
			log.Info("raw\xff", "a", json.RawMessage("\"\xff\\ud800\""))
			log.Info("rawtwice", "a", json.RawMessage(`{"b":1,"b":2}`), "n", uint64(math.MaxUint64))
			Progress(ctx, math.MaxInt64, math.MinInt64, strings.Repeat("\xffü", 5000))
			return nil, Checkpoint(ctx, 1)
		})
	}, WithLog(slog.New(badLog{slog.DiscardHandler})))
	if got := s.reported("1"); got != `{"lease":"","completed":{"result":null}}` {
		t.Errorf("%s", got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	got := strings.Join(s.logs["lease-1"], "\n")
	for _, want := range []string{"1 INFO circle{", "\n2 INFO panics{", "\n3 INFO with{", "\n4 INFO twice{\"a\":2}",
		"\n5 INFO raw\uFFFD{\"a\":\"\uFFFD\\ufffd\"}", "\n6 INFO rawtwice{\"a\":{\"b\":2},\"n\":18446744073709551615}"} {
		if !strings.Contains(got, want) {
			t.Errorf("the lines lack %q: %s", want, got)
		}
	}
	want := fmt.Sprint("1 9007199254740991 of 0 ", strings.Repeat("\uFFFDü", 40))
	if tells := s.tells["lease-1"]; len(tells) != 1 || tells[0] != want {
		t.Errorf("told %q", tells)
	}
}

// A checkpoint that the server would refuse fails in its own handler, and nothing of it is sent.
func TestCheckpoint_Hostile(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.add("1", "SAVE", `{}`)
	deep := func(n int) json.RawMessage { return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	bad := map[string]any{
		"NaN": math.NaN(), "circle": circular(), "panics": badJSON{}, "fails": badJSON{&silentError{}}, "function": func() {},
		"twice": json.RawMessage(`{"a":{"b":1,"\u0062":2}}`), "deep": deep(mostDepth + 1), "half": json.RawMessage(`{"a":`),
		"twice by cleaning": map[string]int{"\xff": 1, "\xfe": 2},
	}
	s.worker(func(w *Worker) {
		Handle(w, "SAVE", func(ctx context.Context, _ size) (any, error) {
			for name, v := range bad {
				if err := Checkpoint(ctx, v); err == nil || !strings.HasPrefix(err.Error(), "checkpoint: ") {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
			}
			for _, v := range []any{deep(mostDepth), "a\xff", json.RawMessage(`[{"b":1},{"b":2},"\ud800"]`)} {
				if err := Checkpoint(ctx, v); err != nil {
					return nil, err
				}
			}
			return nil, nil
		})
	})
	_ = s.reported("1")
	want := fmt.Sprintf("[1=%s 2=\"a\\ufffd\" 3=[{\"b\":1},{\"b\":2},\"\\ufffd\"]]", deep(mostDepth))
	if got := fmt.Sprint(s.saved["lease-1"]); got != want {
		t.Errorf("saved %s, not %s", got, want)
	}
}

// A job whose payload is no JSON cannot be added to a flow, and costs its own handler an error.
func TestAddToFlow_NoJSON(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.add("1", "ADD", `{}`, "flowId", `"f"`)
	s.worker(func(w *Worker) {
		Handle(w, "ADD", func(ctx context.Context, _ size) (any, error) {
			_, err := AddToFlow(ctx, map[string]FlowJob{"a/b": {Payload: circular()}})
			return err.Error(), nil
		})
	})
	if got := s.reported("1"); !strings.Contains(got, `"result":"add to flow: json: `) || len(s.asked) > 0 {
		t.Errorf("%s, asked %q", got, s.asked)
	}
}
