package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// watcher makes the requests of a browser that has the dashboard open. It reads the page and its files once, follows
// the stream until it leaves, and reads the charts' numbers at once and every ten seconds.
type watcher struct {
	base            string
	client          *http.Client
	snapshots, feed atomic.Int64
	stale           atomic.Int64  // that there was no snapshot in time
	first           chan struct{} // closed by the first snapshot
	group           sync.WaitGroup
	failed          atomic.Pointer[error]
}

const chartsEvery = 10 * time.Second // web/static/face/charts.js

// What a page and its files name.
var (
	namedFile   = regexp.MustCompile(`(?:src|href)="(/static/[^"]+)"`)
	namedModule = regexp.MustCompile(`from "(\./[^"]+)"`)
	namedImport = regexp.MustCompile(`@import (?:url\()?"([^"]+)"`)
	namedStream = regexp.MustCompile(`data-live="([^"]+)"`)
)

// look opens a dashboard, and returns when its first snapshot is there. It is open until ctx ends.
func look(ctx context.Context, addr string) (*watcher, error) {
	w := &watcher{base: "http://" + addr, client: &http.Client{Transport: &http.Transport{MaxConnsPerHost: 6}},
		first: make(chan struct{})}
	page, err := w.get(ctx, "/dashboard")
	if err != nil {
		return nil, err
	}
	stream := namedStream.FindStringSubmatch(page)
	if stream == nil {
		return nil, errors.New("the page names no stream")
	}
	if err := w.files(ctx, page); err != nil {
		return nil, err
	}
	w.group.Go(func() { w.fail(ctx, w.read(ctx, html.UnescapeString(stream[1]))) })
	w.group.Go(func() { w.fail(ctx, w.charts(ctx)) })
	select {
	case <-w.first:
		return w, nil
	case <-time.After(10 * time.Second):
		err = errors.New("no snapshot came")
	case <-ctx.Done():
		err = ctx.Err()
	}
	if failed := w.failed.Load(); failed != nil {
		err = *failed
	}
	return nil, err
}

// left waits until nothing of a watcher whose context has ended is there any more, and says what went wrong before.
func (w *watcher) left() error {
	w.group.Wait()
	w.client.CloseIdleConnections()
	if failed := w.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

// fail keeps what went wrong while it was open.
func (w *watcher) fail(ctx context.Context, err error) {
	if ctx.Err() == nil {
		w.failed.CompareAndSwap(nil, &err)
	}
}

func (w *watcher) ask(ctx context.Context, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := w.client.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close()
		return nil, fmt.Errorf("%s was answered %s", path, answer.Status)
	}
	return answer, nil
}

func (w *watcher) get(ctx context.Context, path string) (string, error) {
	answer, err := w.ask(ctx, path)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

// files gets every file that the page names, those that these name, and so on.
func (w *watcher) files(ctx context.Context, page string) error {
	var due []string
	known := map[string]bool{}
	name := func(from, path string) error {
		base, err := url.Parse(from)
		if err != nil {
			return err
		}
		file, err := base.Parse(path)
		if err == nil && !known[file.Path] {
			known[file.Path] = true
			due = append(due, file.Path)
		}
		return err
	}
	for _, m := range namedFile.FindAllStringSubmatch(page, -1) {
		if err := name("/dashboard", m[1]); err != nil {
			return err
		}
	}
	for len(due) > 0 {
		file := due[0]
		due = due[1:]
		text, err := w.get(ctx, file)
		if err != nil {
			return err
		}
		for _, m := range append(namedModule.FindAllStringSubmatch(text, -1),
			namedImport.FindAllStringSubmatch(text, -1)...) {
			if err := name(file, m[1]); err != nil {
				return err
			}
		}
	}
	if len(known) < 5 {
		return fmt.Errorf("the page names %d files", len(known))
	}
	return nil
}

// read reads the stream to its end, which comes only with ctx's.
func (w *watcher) read(ctx context.Context, path string) error {
	answer, err := w.ask(ctx, path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	in := bufio.NewReader(answer.Body)
	for {
		line, err := in.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) { // the data of a snapshot: nobody here reads it
			_, err = in.ReadSlice('\n')
			line = nil
		}
		if err != nil {
			return fmt.Errorf("the stream ended: %w", err)
		}
		switch strings.TrimSpace(string(line)) {
		case "event: snapshot":
			if w.snapshots.Add(1) == 1 {
				close(w.first)
			}
		case "event: feed":
			w.feed.Add(1)
		case "event: stale":
			w.stale.Add(1)
		}
	}
}

func (w *watcher) charts(ctx context.Context) error {
	ticker := time.NewTicker(chartsEvery)
	defer ticker.Stop()
	for {
		if _, err := w.get(ctx, "/api/stats/series?window=5m"); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
