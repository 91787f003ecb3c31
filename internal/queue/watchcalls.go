package queue

import (
	"context"
	"net"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// ScriptCall is one call of a script, as it was sent over a connection.
type ScriptCall struct {
	Script string   // its file in lua/, without .lua
	Keys   []string // its KEYS; a key that ends in a colon is the prefix of the jobs' keys
	Err    error    // nil if Redis answered
}

// WatchCalls calls f for every script call over these clients from now on, after its reply, on the goroutine that
// made the call and with the call's context. It serves displays only: no decision may depend on it.
func (c Clients) WatchCalls(f func(ctx context.Context, call ScriptCall)) {
	for _, client := range []redis.UniversalClient{c.Main, c.Read, c.Worker, c.Bell, c.Beat, c.Rate} {
		client.AddHook(watchHook(f))
	}
}

// scriptNames maps the scripts' digests to their names.
var scriptNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for _, s := range scripts {
		names[s.redis.Hash()] = s.name
	}
	return names
})

type watchHook func(ctx context.Context, call ScriptCall)

// DialHook implements redis.Hook.
func (h watchHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (h watchHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if call, ok := scriptCall(cmd.Args()); ok && !redis.HasErrorPrefix(err, "NOSCRIPT") {
			call.Err = err
			h(ctx, call)
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook. Scripts are never in a pipeline.
func (h watchHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return next(ctx, cmds) }
}

// scriptCall parses EVALSHA digest n key..., or EVAL source n key...; ok is false for any other command.
func scriptCall(args []any) (call ScriptCall, ok bool) {
	if len(args) < 3 {
		return call, false
	}
	command, _ := args[0].(string)
	digest, _ := args[1].(string)
	switch {
	case strings.EqualFold(command, "evalsha"):
	case strings.EqualFold(command, "eval"):
		digest = redis.NewScript(digest).Hash()
	default:
		return call, false
	}
	count, _ := args[2].(int)
	if call.Script, ok = scriptNames()[digest]; !ok || count > len(args)-3 {
		return call, false
	}
	for _, key := range args[3 : 3+count] {
		name, _ := key.(string)
		call.Keys = append(call.Keys, name)
	}
	return call, true
}
