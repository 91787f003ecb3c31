package app

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/tierq/tierq/internal/events"
	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/pages"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/web"
)

// wirePages makes the pages, which call the API with the rights of their viewer, and the dashboard's stream.
func (v *server) wirePages(o *overview, api http.HandlerFunc) []httpapi.Page {
	v.live = pages.NewHub(pages.HubOptions{Snapshot: pages.Snapshots(o.readers()), Log: v.log})
	v.alarms = events.New(events.Options{Source: alarms{v.queue}, Log: v.log})
	v.feed = pages.NewFeed(pages.FeedOptions{
		Hub: v.live, Alarms: func() pages.Subscription { return v.alarms.Stream("") }, Plan: v.plans.Plan, Now: v.view.Now,
	})
	var demo pages.Walkthrough
	if v.boxes != nil {
		demo = walkthrough{v.boxes}
	}
	v.face = pages.New(pages.Options{
		Demo: demo, API: api, Sessions: v.sessions, Set: web.NewSet(), Hub: v.live, Mode: strings.ToUpper(v.stores.mode),
		Version: v.version, Now: v.view.Now, Log: v.log,
	})
	var list []httpapi.Page
	for _, p := range v.face.All() {
		list = append(list, httpapi.Page(p))
	}
	return list
}

// drainStreams answers the waiting callers, and ends the streams.
func (v *server) drainStreams() {
	v.hub.Drain()
	if v.leasing != nil {
		v.leasing.Drain()
	}
	if v.faktory != nil {
		v.faktory.Drain()
	}
	if v.live != nil {
		v.live.Drain()
		v.face.Drain()
	}
}

// dashboard is the part behind the dashboard. It reads the stores only while a browser shows it.
type dashboard struct {
	alarms *events.Hub
	feed   *pages.Feed
	live   *pages.Hub
}

func (d dashboard) Start(ctx context.Context) error { return d.alarms.Start(ctx) }

func (d dashboard) Stop(ctx context.Context) error {
	return errors.Join(d.feed.Stop(ctx), d.live.Stop(ctx), d.alarms.Stop(ctx))
}

// alarms is the source of the events that operators see.
type alarms struct{ *queue.Queue }

func (a alarms) Listen(ctx context.Context, heard func([]job.Event), up func()) error {
	return a.ListenAlarms(ctx, heard, up)
}
