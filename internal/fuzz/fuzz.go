// Package fuzz drives the fuzz targets of all rooms. Under plain go test each of them runs its seeds, what was kept under testdata/fuzz, and
// some of their mutations for a moment: so a build cannot lose a target. `make fuzz` runs every target under Go's own fuzzer, which is guided
// by coverage, for as long as it is told to. Product code never imports it.
package fuzz

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

// moment is how long plain go test mutates the seeds of one target, all together.
const moment = 200 * time.Millisecond

// Text fuzzes one text. check must say with t what is wrong; it is called often, one call at a time.
func Text(f *testing.F, check func(t *testing.T, text string), seeds ...string) {
	f.Helper()
	for _, s := range seeds {
		f.Add(s)
	}
	if native() {
		f.Fuzz(check)
		return
	}
	draw := uint64(time.Now().UnixNano())
	m := &mutator{seeds: seeds, rand: rand.New(rand.NewPCG(draw, 0))}
	share := moment / time.Duration(max(len(seeds), 1))
	spent := time.Duration(0)
	f.Fuzz(func(t *testing.T, text string) {
		once(t, check, text)
		if spent >= moment { // kept inputs come behind the seeds
			return
		}
		n, begun := 0, time.Now()
		for ; !t.Failed() && time.Since(begun) < share; n++ {
			once(t, check, m.mutate(text))
		}
		spent += time.Since(begun)
		if t.Failed() {
			spent = moment // one is enough
		}
		t.Logf("%d mutations, drawn with %d", n, draw)
	})
}

// native says whether Go's own fuzzer runs this process, or is it.
func native() bool { return flag.Lookup("test.fuzz").Value.String() != "" }

// once makes one call, and shows the text if that call failed, in the form in which it can be kept.
func once(t *testing.T, check func(*testing.T, string), text string) {
	t.Helper()
	returned := false
	defer func() {
		if !returned || t.Failed() {
			t.Logf("the text, to be kept as a file of testdata/fuzz/<target>:\ngo test fuzz v1\nstring(%q)", text)
		}
	}()
	check(t, text)
	returned = true
}
