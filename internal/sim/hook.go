package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/tierq/tierq/lua"
)

// These errors take the place of a reply, in the form that go-redis would give them.
var (
	errDead  error = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("the process is dead")}
	errDial  error = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	errReset error = io.EOF
	errLate        = fmt.Errorf("i/o timeout: %w", context.DeadlineExceeded)
)

// refusal is an error that Redis answers.
type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError marks it as an answer of the server.
func (r refusal) RedisError() {}

// sources has the scripts' texts by name; names has the scripts' names by the digest that go-redis sends.
var sources, names = func() (sources, names map[string]string) {
	sources, names = map[string]string{}, map[string]string{}
	for _, name := range lua.Names {
		sources[name] = lua.Script(name)
		names[redis.NewScript(sources[name]).Hash()] = name
	}
	return sources, names
}()

// hook stands between go-redis and its connections. No connection is ever opened.
type hook struct {
	call func(ctx context.Context, c *call) (any, error)
}

// newClient returns a go-redis client that is set up as tierq does, and that calls do instead of a server.
func newClient(do func(ctx context.Context, c *call) (any, error)) *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", MaxRetries: -1, DisableIdentity: true, Protocol: 2, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	c.AddHook(hook{do})
	return c
}

func (hook) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errDial }
}

func (h hook) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		reply, err := h.call(ctx, asCall(words(cmd)))
		if err == nil {
			err = give(cmd, reply)
		}
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}

// ProcessPipelineHook handles a pipeline as one call.
func (h hook) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		all := &call{name: "pipeline"}
		for _, cmd := range cmds {
			all.args = append(all.args, strings.Join(words(cmd), " "))
		}
		reply, err := h.call(ctx, all)
		replies, _ := reply.([]any)
		for i, cmd := range cmds {
			if err != nil {
				cmd.SetErr(err)
			} else if refused, ok := replies[i].(refusal); ok {
				cmd.SetErr(refused)
			} else if name := cmd.Name(); name != "multi" && name != "exec" {
				cmd.SetErr(give(cmd, replies[i]))
			}
		}
		return err
	}
}

func words(cmd redis.Cmder) []string {
	args := cmd.Args()
	texts := make([]string, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case string:
			texts[i] = v
		case []byte:
			texts[i] = string(v)
		default:
			texts[i] = fmt.Sprint(v)
		}
	}
	return texts
}

// asCall makes a call from the words of a command. It names a script by its name, whether the script is sent whole
// or by its digest.
func asCall(w []string) *call {
	c := &call{name: strings.ToLower(w[0]), args: w}
	if c.name != "evalsha" && c.name != "eval" {
		return c
	}
	digest := w[1]
	if c.name == "eval" {
		c.source = w[1]
		digest = digestOf(w[1])
	}
	c.name = names[digest]
	c.keys, _ = strconv.Atoi(w[2])
	c.args = w[3:]
	return c
}

var digests sync.Map // by source

func digestOf(source string) string {
	if d, ok := digests.Load(source); ok {
		return d.(string)
	}
	d := redis.NewScript(source).Hash()
	digests.Store(source, d)
	return d
}

func (c *call) script() bool { return c.keys > 0 }

// give sets a reply in the command that asked for it.
func give(cmd redis.Cmder, reply any) error {
	if reply == nil {
		return redis.Nil
	}
	switch c := cmd.(type) {
	case *redis.Cmd:
		c.SetVal(reply)
	case *redis.SliceCmd:
		c.SetVal(reply.([]any))
	case *redis.StringSliceCmd:
		c.SetVal(strs(reply))
	case *redis.StringCmd:
		c.SetVal(reply.(string))
	case *redis.ZSliceCmd:
		var all []redis.Z
		for texts := strs(reply); len(texts) > 1; texts = texts[2:] {
			score, err := strconv.ParseFloat(texts[1], 64)
			if err != nil {
				return err
			}
			all = append(all, redis.Z{Member: texts[0], Score: score})
		}
		c.SetVal(all)
	case *redis.MapStringStringCmd:
		pairs := map[string]string{}
		for texts := strs(reply); len(texts) > 1; texts = texts[2:] {
			pairs[texts[0]] = texts[1]
		}
		c.SetVal(pairs)
	case *redis.BoolCmd:
		c.SetVal(reply == int64(1))
	case *redis.IntCmd:
		c.SetVal(reply.(int64))
	case *redis.FloatCmd:
		f, err := strconv.ParseFloat(reply.(string), 64)
		if err != nil {
			return err
		}
		c.SetVal(f)
	case *redis.TimeCmd:
		t := strs(reply)
		seconds, _ := strconv.ParseInt(t[0], 10, 64)
		micros, _ := strconv.ParseInt(t[1], 10, 64)
		c.SetVal(time.Unix(seconds, micros*1000))
	default:
		return fmt.Errorf("sim: no way to answer a %T", cmd)
	}
	return nil
}

// strs returns a reply that is a list of strings.
func strs(reply any) []string {
	items, _ := reply.([]any)
	texts := make([]string, len(items))
	for i := range items {
		texts[i], _ = items[i].(string)
	}
	return texts
}
