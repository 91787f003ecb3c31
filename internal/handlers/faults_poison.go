//go:build failpoint

package handlers

import (
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/tierq/tierq/internal/failpoint"
)

// poison is a way to end the process that no recover can stop. Its kill does not return.
type poison struct {
	how  string
	kill func()
}

var poisons = []poison{
	{"kill", failpoint.Kill},
	{"exit", func() { os.Exit(3) }},
	{"stack", overflow},
	{"maps", collide},
	{"goroutinePanic", panicElsewhere},
	{"oom", starve},
}

// poisonOf returns the poison of that name, or the first one for "".
func poisonOf(how string) (poison, bool) {
	if how == "" {
		return poisons[0], true
	}
	i := slices.IndexFunc(poisons, func(p poison) bool { return p.how == how })
	if i < 0 {
		return poison{}, false
	}
	return poisons[i], true
}

func poisonNames() string {
	names := make([]string, len(poisons))
	for i, p := range poisons {
		names[i] = p.how
	}
	return strings.Join(names, ", ")
}

// overflow calls itself until the stack is full. It lowers the stack's limit, so that this takes less than a
// gigabyte.
func overflow() {
	debug.SetMaxStack(8 << 20)
	_ = deeper(1)
}

func deeper(n int) int { return deeper(n+1) + n }

// collide writes to one map from several goroutines until the runtime notices.
func collide() {
	shared := map[int]int{}
	for range 8 {
		go func() {
			for n := 0; ; n++ {
				shared[n%64]++
			}
		}()
	}
	select {}
}

// panicElsewhere panics on a goroutine that the handler started, where no recover exists.
func panicElsewhere() {
	go func() { panic("a goroutine of the handler") }()
	select {}
}

// starve allocates memory until the kernel refuses more. A limit on the address space keeps the shortage to this
// process. The garbage collector is off, because a collector without memory ends the process with other messages.
func starve() {
	debug.SetGCPercent(-1)
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
		panic(err)
	}
	var hoard [][]byte
	for {
		hoard = append(hoard, make([]byte, 1<<20))
		hoard[len(hoard)-1][0] = 1
	}
}
