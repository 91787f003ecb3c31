package pages

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/web"
)

// getOverview serves /. The page is shown whatever is down, and says so.
func (p *Pages) getOverview(w http.ResponseWriter, r *http.Request) {
	v := web.OverviewView{Frame: p.frame(r), Base: p.base(r)}
	var dead int64
	v.Health, dead, v.Problem = p.health(r)
	if p.who(r).Operator {
		v.Plans = p.plans(r)
		s, err := p.stats(r)
		switch {
		case err == nil:
			s.Dead = dead
			v.Snapshot, v.Gate = s, &s.Gate
		case v.Problem == "" && !refusedWith(err, http.StatusUnauthorized, http.StatusForbidden):
			v.Problem = p.refusalIn(r, err).Detail
		}
	}
	p.show(w, r, http.StatusOK, func(w io.Writer) error { return p.o.Set.Overview(w, v) })
}

// plans returns the tiers' plans, best first; nil if the caller may not see them, or the API does not answer.
func (p *Pages) plans(r *http.Request) []web.Plan {
	var tiers struct{ Items []client.Plan }
	if !p.who(r).Operator || p.ask(r, http.MethodGet, "/admin/tiers", nil, &tiers) != nil {
		return nil
	}
	list := make([]web.Plan, len(tiers.Items))
	for i, t := range tiers.Items {
		list[i] = planOf(&t)
	}
	return list
}

// stats returns the counts in the diagram. The fields of the view have the names of /api/stats; the other counts
// are summed up here.
func (p *Pages) stats(r *http.Request) (*web.Snapshot, error) {
	var text json.RawMessage
	if err := p.ask(r, http.MethodGet, "/api/stats", nil, &text); err != nil {
		return nil, err
	}
	s := &web.Snapshot{}
	var more struct {
		Workers        []struct{ Kind, Language, State string }
		Tiers          []struct{ Completed, Failed, Cancelled, Expired int64 }
		DrainPerSecond float64
		Timestamp      time.Time
	}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &more); err != nil {
		return nil, err
	}
	s.At, s.PerSecond = more.Timestamp, more.DrainPerSecond
	for _, t := range more.Tiers {
		s.Ended += t.Completed + t.Failed + t.Cancelled + t.Expired
	}
	for _, t := range s.Tiers {
		s.InFlight += t.InFlight
	}
	for i, one := range s.Workers {
		said := more.Workers[i]
		s.Workers[i].State, s.Workers[i].Asked = WorkerWords(said.Kind, said.Language, said.State), said.State
		s.Slots.Running += one.Running
		s.Slots.Total += one.Slots
	}
	return s, nil
}

// The texts about a store that is down.
const (
	redisAway = "Redis does not answer. Running jobs go on, and accepted jobs are not lost. The server refuses new jobs " +
		"until Redis answers."
	sqlAway   = "SQL does not answer. Jobs go on; their outcomes wait in Redis until SQL answers."
	storeAway = "A store that this page needs does not answer. Accepted jobs are not lost."
)

// health returns the state of the parts, the number of dead letters, and a text for users about what is down; "" =
// nothing.
func (p *Pages) health(r *http.Request) (parts []web.Part, dead int64, away string) {
	type part struct{ Status, Detail string }
	var said struct {
		Status     string
		Components *struct {
			Redis, DB, Gate part
			Job             struct {
				Status  string
				Details struct {
					DeadJobs                int64
					ActiveThreads, PoolSize int
				}
			}
		}
	}
	a, err := p.call(r, http.MethodGet, "/actuator/health", nil)
	if err == nil {
		err = a.understood(&said)
	}
	if err != nil {
		return nil, 0, storeAway
	}
	c := said.Components
	if c == nil { // only operators see the parts
		if said.Status == "DOWN" {
			away = storeAway
		}
		return []web.Part{{Name: "tierq", Status: said.Status}}, 0, away
	}
	switch {
	case c.Redis.Status == "DOWN":
		away = redisAway
	case c.DB.Status == "DOWN":
		away = sqlAway
	}
	busy := ""
	if d := c.Job.Details; d.PoolSize > 0 {
		busy = strconv.Itoa(d.ActiveThreads) + " of " + strconv.Itoa(d.PoolSize) + " slots of this process are busy"
	}
	return []web.Part{
		{Name: "Redis", Status: c.Redis.Status, Detail: c.Redis.Detail},
		{Name: "SQL", Status: c.DB.Status, Detail: c.DB.Detail},
		{Name: "gate", Status: c.Gate.Status, Detail: c.Gate.Detail}, {Name: "workers", Status: c.Job.Status, Detail: busy},
	}, c.Job.Details.DeadJobs, away
}
