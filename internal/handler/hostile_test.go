package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/job"
)

type (
	badJSON struct{ fails error } // nil = MarshalJSON panics
	badText struct{}
	badLog  struct{ slog.Handler }
)

func (v badJSON) MarshalJSON() ([]byte, error) {
	if v.fails == nil {
		panic("MarshalJSON panics")
	}
	return nil, v.fails
}
func (badText) Error() string                            { panic(badText{}) }
func (v badText) LogValue() slog.Value                   { return slog.GroupValue(slog.Any("again", v)) }
func (badLog) Handle(context.Context, slog.Record) error { panic("the log panics") }

func circular() any {
	v := []any{nil}
	v[0] = v
	return v
}

// A result that is no JSON fails the job for good, and a text that is no UTF-8 is made valid.
func TestRun_HostileResults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		out  any
		want string // "result: " = the beginning of the error
	}{
		"panics":      {badJSON{}, "result: its marshaller panics: MarshalJSON panics"},
		"fails":       {badJSON{badText{}}, "result: *json.MarshalerError, whose text cannot be read"},
		"later":       {badJSON{Later(1)}, "result: json: error calling MarshalJSON"},
		"circle":      {circular(), "result: "},
		"no UTF-8":    {map[string]any{"a\xff": json.RawMessage("\"\xfe\"")}, "{\"a\uFFFD\":\"\uFFFD\"}"},
		"half a pair": {json.RawMessage(`["\ud800",12345678901234567890,1.0]`), "[\"\uFFFD\",12345678901234567890,1.0]"},
	} {
		r := NewRegistry()
		Register(r, "WORK", func(context.Context, any) (any, error) { return c.out, nil })
		result, err := r.Run(t.Context(), "WORK", nil)
		if strings.HasPrefix(c.want, "result: ") {
			if !Judge(err).Permanent || !strings.HasPrefix(TextOf(err), c.want) {
				t.Errorf("%s: %v", name, err)
			}
		} else if err != nil || string(result) != c.want || !utf8.Valid(result) {
			t.Errorf("%s: %s, %v", name, result, err)
		}
	}
}

// A line keeps its text, whatever its attributes are, and whatever the program's own log does.
func TestLogger_Hostile(t *testing.T) {
	t.Parallel()
	var got []string
	run := Run{Line: func(_, text string, attrs []byte) { got = append(got, text+string(attrs)) }}
	run.Log = slog.New(ContainLog(badLog{slog.NewTextHandler(&bytes.Buffer{}, nil)}))
	log := Logger(WithRun(t.Context(), run))
	log.Info("circle", "a", circular(), "n", math.NaN())
	log.With("b", circular()).Info("with", "a", badText{}, "j", badJSON{}, "e", errors.New("e"))
	log.Info("twice", "a", 1, "a", json.RawMessage("\"\xff\""))
	if len(got) != 3 || !strings.HasPrefix(got[0], `circle{"a":"!ERROR: `) ||
		!strings.HasPrefix(got[1], `with{"b":"!ERROR: `) ||
		got[2] != "twice{\"a\":\"\uFFFD\"}" {
		t.Errorf("%q", got)
	}
	p := job.NewProgress(math.MaxInt64, math.MinInt64, "\xff")
	if p.Done != 1<<53-1 || p.Total != 0 || p.Note != "\uFFFD" {
		t.Errorf("%+v", p)
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	deep := func(n int) json.RawMessage { return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	for _, v := range []any{math.NaN(), circular(), badJSON{}, deep(MaxNesting + 1), json.RawMessage(`{"a":1,"a":2}`)} {
		if text, err := Encode(v); err == nil {
			t.Errorf("it becomes %s", text)
		}
	}
	if text, err := Encode([]any{deep(MaxNesting - 1), "\xff"}); err != nil || !utf8.Valid(text) {
		t.Errorf("%s, %v", text, err)
	}
}
