// Package fuzz drives the fuzz targets of all packages. Under plain go test each target runs its seeds, the inputs
// kept under testdata/fuzz, and some mutations for a short time, so that no build can break a target unnoticed.
// `make fuzz` runs every target under Go's own fuzzer, which is guided by coverage, for a given time. Product code
// never imports this package.
package fuzz

import (
	"flag"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"
)

// Under plain go test the seeds of one target get this many mutations in total, or as many as fit into moment.
// They are the same mutations in every run, so that a build fails only because of a change. Go's fuzzer makes new
// ones.
const (
	mutations = 1500
	moment    = 200 * time.Millisecond
)

// Text fuzzes a function of one text. check must report with t what is wrong. check is called often, one call at a
// time.
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
		if spent >= moment { // kept inputs run after the seeds
			return
		}
		m.rand = rand.New(rand.NewPCG(number(text), 0))
		n, begun := 0, time.Now()
		for ; !t.Failed() && n < mutations/texts+1 && time.Since(begun) < share; n++ {
			once(t, check, m.mutate(text))
		}
		spent += time.Since(begun)
		if t.Failed() {
			spent = moment // one failure is enough
		}
		t.Logf("%d mutations", n)
	})
}

// number returns a hash of a text.
func number(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

// native says whether this process is Go's own fuzzer or one of its workers.
func native() bool { return flag.Lookup("test.fuzz").Value.String() != "" }

// once calls check once. If the call fails, once prints the text in the form of a file of testdata/fuzz.
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
