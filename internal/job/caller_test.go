package job

import "testing"

// A worker's key is bound to queues by their names, or by the beginning of their names. It submits only if it may, and
// then to its queues only.
func TestCaller_QueuesOfWorkers(t *testing.T) {
	worker := func(submits bool, queues ...string) Caller {
		return Caller{Key: Key{ID: "k", Role: RoleWorker, Queues: queues, Submits: submits}}
	}
	for _, c := range []struct {
		caller                 Caller
		queue                  string
		fetch, declare, submit bool
	}{
		{worker(true, "images"), "images", true, true, true},
		{worker(true, "images"), "images2", false, false, false},
		{worker(true, "images*"), "images", true, true, true},
		{worker(true, "images*"), "images:thumbs", true, true, true},
		{worker(true, "images*"), "image", false, false, false},
		{worker(true, "images*"), "Images", false, false, false},
		{worker(true, "images*"), "images*", true, false, true},
		{worker(true, "films", "ma*"), MainQueue, true, true, true},
		{worker(true, "films", "ma*"), "film", false, false, false},
		{worker(true), "images", true, false, true},
		{worker(false, "images*"), "images", true, true, false},
		{worker(false), MainQueue, true, false, false},
		{Caller{Key: Key{Role: RoleSubmit, Submits: true}}, "images", false, false, true},
		{Caller{Key: Key{Role: RoleReadOnly, Submits: true}}, "images", false, false, false},
		{Caller{Key: Key{Role: RoleAdmin}}, "images", true, false, true},
		{Caller{Open: true}, "images", true, true, true},
		{Caller{}, MainQueue, false, false, false},
	} {
		if fetch, declare, submit := c.caller.MayFetch(c.queue), c.caller.MayDeclare(c.queue),
			c.caller.MaySubmitTo(c.queue); fetch != c.fetch || declare != c.declare || submit != c.submit {
			t.Errorf("%+v and %s: fetches %v, declares %v, submits %v", c.caller.Key, c.queue, fetch, declare, submit)
		}
	}
	for _, c := range []struct {
		caller Caller
		sees   bool
	}{{worker(true), true}, {worker(true, "images"), true}, {worker(false), false}} {
		if c.caller.Sees("k") != c.sees || c.caller.Submits() != c.sees || c.caller.Sees("other") || c.caller.Operator() {
			t.Errorf("%+v sees its own job: %v", c.caller.Key, c.caller.Sees("k"))
		}
	}
}

func TestIsQueueBound(t *testing.T) {
	for text, is := range map[string]bool{
		"images": true, "images*": true, "a.b:c-D_1*": true, "1*": true, MainQueue: true,
		"": false, "*": false, "images**": false, "im*ges": false, "*images": false, "-images*": false, "a b*": false,
	} {
		if IsQueueBound(text) != is {
			t.Errorf("%q: %v", text, !is)
		}
	}
}
