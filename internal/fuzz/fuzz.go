// Package fuzz drives the fuzz targets of all rooms. Under plain go test each of them runs its seeds, what was kept
// under testdata/fuzz, and some of their mutations for a moment: so a build cannot lose a target. `make fuzz` runs
// every target under Go's own fuzzer, which is guided by coverage, for as long as it is told to. Product code never
// imports it.
package fuzz

import (
	"flag"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"
)

// Plain go test mutates the seeds of one target so often, all together, or for a moment. The same mutations come each
// time: a build fails for what was changed in it. New ones are what Go's fuzzer is for.
const (
	mutations = 1500
	moment    = 200 * time.Millisecond
)

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
	m := &mutator{seeds: seeds}
	texts := max(len(seeds), 1)
	share := moment / time.Duration(texts)
	spent := time.Duration(0)
	f.Fuzz(func(t *testing.T, text string) {
		once(t, check, text)
		if spent >= moment { // kept inputs come behind the seeds
			return
		}
		m.rand = rand.New(rand.NewPCG(number(text), 0))
		n, begun := 0, time.Now()
		for ; !t.Failed() && n < mutations/texts+1 && time.Since(begun) < share; n++ {
			once(t, check, m.mutate(text))
		}
		spent += time.Since(begun)
		if t.Failed() {
			spent = moment // one is enough
		}
		t.Logf("%d mutations", n)
	})
}

// number is a number of a text's own.
func number(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
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
