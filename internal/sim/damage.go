package sim

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// damageLine damages what Redis has of a line, as an edit by hand would, and lets the audit repair it before any other
// call. The shadow does not notice, and no rule does.
func (w *World) damageLine(kind int) {
	lines := queue.Key(0, "lines")
	for _, name := range slices.Sorted(maps.Keys(w.shadow.lineNames())) {
		tier, rest, _ := strings.Cut(name, ":")
		key, in, _ := strings.Cut(rest, ":")
		member, state := "@"+tier+":"+key, strings.Fields(w.text("HGET", lines+"keys", key))
		switch {
		case kind == 0 && w.did("ZREM", queue.QueueKey(0, in), member):
		case kind == 1 && len(state) > 3 && slices.Contains(state[3:], tier+":"+in) &&
			w.did("ZREM", lines+"parked", key):
		case kind == 2 && len(state) > 2:
			w.did("HSET", lines+"keys", key, strings.Join(append([]string{"7"}, state[1:]...), " "))
		case kind == 3 && len(state) > 2 && state[2] == "-":
			state[2] = "no-such-job"
			w.did("HSET", lines+"keys", key, strings.Join(state, " "))
		default:
			continue
		}
		w.fault("damaged line")
		w.repairLine(job.Suspected{ID: job.ID(member), MetIn: in})
		return
	}
}

// queueOn returns a queue of no process, whose calls a client makes.
func (w *World) queueOn(client *redis.Client) *queue.Queue {
	return queue.New(queue.Clients{Main: client}, &job.PlanBook{}, queue.Options{Partitions: w.plan.partitions,
		Queues: declared()})
}

// text executes a command whose answer is a text.
func (w *World) text(args ...string) string {
	reply, _ := w.store.do(args...)
	text, _ := reply.(string)
	return text
}

// did executes a command, and says whether it changed anything.
func (w *World) did(args ...string) bool {
	reply, _ := w.store.do(args...)
	return reply == int64(1)
}

// repairLine lets the audit look at a line, and at the counts, and checks the store.
func (w *World) repairLine(suspect job.Suspected) {
	client := newClient(func(_ context.Context, c *call) (any, error) { return w.execute(c) })
	defer func() { _ = client.Close() }()
	q := w.queueOn(client)
	_, err := q.AuditJobs(context.Background(), []job.Suspected{suspect})
	if err == nil {
		_, err = q.Recount(context.Background(), suspect.Partition, true)
	}
	if err != nil {
		w.fail("audit", "%v", err)
	}
	w.check(false)
}
