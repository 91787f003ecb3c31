package testkit

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// echo starts a server that sends back what it receives.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

// Each weather delays a round trip as long as it promises, and ends at once when it is changed.
func TestWeather(t *testing.T) {
	t.Parallel()
	p := NewTCPProxy(t, echo(t))
	c, err := net.Dial("tcp", p.Addr())
	must(t, err)
	defer c.Close()
	trip := func(n int) time.Duration {
		began := time.Now()
		if _, err := c.Write(bytes.Repeat([]byte("x"), n)); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
			t.Error(err)
		}
		return time.Since(began)
	}
	trip(1)
	if n := p.Suffered(); n != 0 {
		t.Errorf("good weather held %d pieces back", n)
	}
	for _, tc := range []struct {
		name string
		w    Weather
		n    int
		min  time.Duration
	}{
		{"latency", Weather{Latency: 40 * time.Millisecond, Jitter: time.Millisecond}, 1, 80 * time.Millisecond},
		{"bandwidth", Weather{BytesPerSecond: 20_000}, 2_000, 200 * time.Millisecond},
	} {
		before := p.Suffered()
		p.SetWeather(tc.w)
		if took := trip(tc.n); took < tc.min || took > tc.min+5*time.Second {
			t.Errorf("%s: a round trip took %s, want %s", tc.name, took, tc.min)
		}
		if p.Suffered() == before {
			t.Errorf("%s left no evidence", tc.name)
		}
	}
	p.SetWeather(Weather{Stalled: true})
	over := time.AfterFunc(100*time.Millisecond, func() { p.SetWeather(Weather{}) })
	defer over.Stop()
	if took := trip(10); took < 100*time.Millisecond {
		t.Errorf("stalled for 100 ms, a round trip took %s", took)
	}
	p.SetWeather(Weather{Stalled: true})
	_ = c.Close() // a stalled link ends with its client, and Close does not wait for the weather
}
