package queue

import (
	"context"
	"net"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// ScriptCall is one call of a script, as it went over a connection.
type ScriptCall struct {
	Script string   // its file in lua/, without .lua
	Keys   []string // its KEYS; one that ends in a colon is how the keys of jobs begin
	Err    error    // nil once Redis has answered
}

// WatchCalls tells f of every script call over these clients from now on, on the goroutine that made it, with its
// context and once it is answered. It is for those who show what happens; nothing that decides may hang on it.
func (c Clients) WatchCalls(f func(ctx context.Context, call ScriptCall)) {
	for _, client := range []redis.UniversalClient{c.Main, c.Read, c.Worker, c.Bell, c.Beat, c.Rate} {
		client.AddHook(watchHook(f))
	}
}

// scriptNames are the scripts' names by their digests.
var scriptNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for _, s := range scripts {
		names[s.redis.Hash()] = s.name
	}
	return names
})

type watchHook func(ctx context.Context, call ScriptCall)

// DialHook is redis.Hook's.
func (h watchHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook is redis.Hook's.
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

// ProcessPipelineHook is redis.Hook's. Scripts are never in a pipeline.
func (h watchHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return next(ctx, cmds) }
}

// scriptCall reads EVALSHA digest n key..., or EVAL source n key...
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
