package sim

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// store is the embedded server without a connection. Its scripts run in the server's Lua engine, but in one Lua
// state for all calls. The server itself makes a new state for each call, which costs ten times as much as the
// script. own turns that off; TestReplay compares both ways.
type store struct {
	mini *miniredis.Miniredis
	lua  *lua.LState
	own  bool

	reply bytes.Buffer
	out   *bufio.Writer
	in    *bufio.Reader
	peer  *server.Peer
}

// newStore returns an empty server that reads the bubble's clock.
func newStore(own bool) (*store, error) {
	s := &store{mini: miniredis.NewMiniRedis(), own: own}
	first, err := s.mini.Dial() // starts the server
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	_ = first.Close()
	s.out, s.in = bufio.NewWriter(&s.reply), bufio.NewReader(&s.reply)
	s.peer = server.NewPeer(s.out)
	s.lua = lua.NewState(lua.Options{SkipOpenLibs: true})
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString,
		lua.MathLibName: lua.OpenMath,
	} {
		s.lua.Push(s.lua.NewFunction(open))
		s.lua.Push(lua.LString(name))
		s.lua.Call(1, 0)
	}
	redis := s.lua.NewTable()
	redis.RawSetString("call", s.lua.NewFunction(s.luaCall(true)))
	redis.RawSetString("pcall", s.lua.NewFunction(s.luaCall(false)))
	s.lua.SetGlobal("redis", redis)
	return s, nil
}

func (s *store) close() {
	s.lua.Close()
	s.mini.Close()
}

// do executes one command. The reply is nil, a string, an int64, a server.Simple, or a list of these.
func (s *store) do(args ...string) (any, error) {
	s.reply.Reset()
	s.mini.Server().Dispatch(s.peer, args)
	_ = s.out.Flush()
	s.in.Reset(&s.reply)
	reply, err := server.ParseReply(s.in)
	if n, ok := reply.(int); ok {
		return int64(n), err
	}
	return reply, err
}

// eval executes one call of a script.
func (s *store) eval(source string, keys, argv []string) (any, error) {
	if s.own {
		return s.do(append(append([]string{"EVAL", source, strconv.Itoa(len(keys))}, keys...), argv...)...)
	}
	proto, err := compile(source)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	l := s.lua
	l.SetGlobal("KEYS", list(l, keys))
	l.SetGlobal("ARGV", list(l, argv))
	l.Push(l.NewFunctionFromProto(proto))
	if err := l.PCall(0, 1, nil); err != nil {
		l.SetTop(0)
		return nil, fmt.Errorf("ERR %w", err)
	}
	reply := l.Get(-1)
	l.SetTop(0)
	return fromLua(reply)
}

var compiled sync.Map // source -> *lua.FunctionProto

func compile(source string) (*lua.FunctionProto, error) {
	if p, ok := compiled.Load(source); ok {
		return p.(*lua.FunctionProto), nil
	}
	chunk, err := parse.Parse(strings.NewReader(source), "script")
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(chunk, "script")
	if err == nil {
		compiled.Store(source, proto)
	}
	return proto, err
}

func list(l *lua.LState, texts []string) *lua.LTable {
	t := l.CreateTable(len(texts), 0)
	for _, text := range texts {
		t.Append(lua.LString(text))
	}
	return t
}

// luaCall returns redis.call if ends, and otherwise redis.pcall, in which an error does not end the script.
func (s *store) luaCall(ends bool) lua.LGFunction {
	return func(l *lua.LState) int {
		args := make([]string, l.GetTop())
		for i := range args {
			args[i] = lua.LVAsString(l.Get(i + 1))
		}
		reply, err := s.do(args...)
		if err != nil && ends {
			l.RaiseError("%s", err.Error())
		}
		if err != nil {
			failed := l.NewTable()
			failed.RawSetString("err", lua.LString(err.Error()))
			l.Push(failed)
			return 1
		}
		l.Push(toLua(l, reply))
		return 1
	}
}

func toLua(l *lua.LState, reply any) lua.LValue {
	switch r := reply.(type) {
	case int64:
		return lua.LNumber(r)
	case int: // in a list
		return lua.LNumber(r)
	case string:
		return lua.LString(r)
	case server.Simple:
		t := l.NewTable()
		t.RawSetString("ok", lua.LString(r))
		return t
	case []any:
		t := l.CreateTable(len(r), 0)
		for i := range r {
			t.Append(toLua(l, r[i]))
		}
		return t
	}
	return lua.LFalse
}

func fromLua(v lua.LValue) (any, error) {
	switch r := v.(type) {
	case lua.LNumber:
		return int64(r), nil
	case lua.LString:
		return string(r), nil
	case *lua.LTable:
		if e, bad := r.RawGetString("err").(lua.LString); bad {
			return nil, errors.New(string(e))
		}
		items := make([]any, 0, r.Len())
		for i := 1; i <= r.Len(); i++ {
			item, err := fromLua(r.RawGetInt(i))
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		return items, nil
	}
	return nil, nil
}
