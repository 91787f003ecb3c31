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

// poison is one way to end the process that no recover can stop. It does not return.
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

// poisonOf is the poison of that name, the first one for "".
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

// overflow calls itself until the stack is full, of which there need not be a gigabyte to see it.
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

// panicElsewhere panics where nobody recovers: on a goroutine that the handler started.
func panicElsewhere() {
	go func() { panic("a goroutine of the handler") }()
	select {}
}

// starve takes memory until there is no more. The kernel gives this process nothing beyond what it has, so that no
// other one suffers. No garbage is collected: a collector without memory dies of that in other words.
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
