package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// figure is one measured number with its unit.
type figure struct {
	name, unit string
	value      float64
}

// table gathers the figures of several runs under their names, in the order they first came.
type table struct {
	names  []string
	units  map[string]string
	values map[string][]float64
}

func newTable() *table { return &table{units: map[string]string{}, values: map[string][]float64{}} }

func (t *table) add(figures []figure) {
	for _, f := range figures {
		if _, known := t.units[f.name]; !known {
			t.names = append(t.names, f.name)
			t.units[f.name] = f.unit
		}
		t.values[f.name] = append(t.values[f.name], f.value)
	}
}

// median of the runs; of an even number the higher middle one.
func (t *table) median(name string) float64 {
	v := slices.Clone(t.values[name])
	slices.Sort(v)
	return v[len(v)/2]
}

// write prints one line per figure: the median, then every run in its order.
func (t *table) write(out io.Writer) {
	for _, name := range t.names {
		fmt.Fprintf(out, "  %-52s %12s %-9s runs:", name, number(t.median(name)), t.units[name])
		for _, v := range t.values[name] {
			fmt.Fprintf(out, " %s", number(v))
		}
		fmt.Fprintln(out)
	}
}

func number(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// quantile sorts d and returns the value that the share q of them does not exceed.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(int(q*float64(len(d))), len(d)-1)]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func micros(d time.Duration, n int) float64 {
	return float64(d) / float64(time.Microsecond) / float64(n)
}

func perSecond(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }
