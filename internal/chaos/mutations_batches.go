package chaos

import (
	"time"

	"github.com/tierq/tierq/internal/chaos/client"
)

// manyBatches is a load of which every fourth request makes a batch.
func manyBatches(m *client.Mix) { m.Group, m.Flow, m.Requeue = 0.25, 0, 1 }

// mutationsOfBatches are bugs of batches and their rounds.
var mutationsOfBatches = []mutation{
	{
		name:  "a then job comes a member early",
		want:  "S30",
		sleep: 500 * time.Millisecond,
		mix:   manyBatches,
		edits: []edit{{"internal/archive/members.go", `"total = completed + failed + cancelled + expired AND`,
			`"total <= 1 + completed + failed + cancelled + expired AND`}},
	},
	{
		name: "a round ends twice",
		want: "S30",
		mix:  manyBatches,
		edits: []edit{
			{"internal/archive/members.go", "cancelled + expired AND ended_round < round\"", "cancelled + expired\""},
			{"internal/job/batch.go", "strconv.Itoa(b.Round)))\n", "strconv.Itoa(b.Round) + b.EndedAt.String()))\n"},
		},
	},
	{
		name: "each requeue of a member is a round",
		want: "S30",
		mix:  func(m *client.Mix) { manyBatches(m); m.Fail = 0.5 },
		edits: []edit{{"internal/archive/members.go", "round + CASE WHEN ended_round = round THEN 1 ELSE 0 END",
			"round + 1"}},
	},
	{
		name:  "a sealed batch takes members",
		want:  "S30",
		mix:   manyBatches,
		edits: []edit{{"internal/archive/members.go", "		case sealed:\n", "		case sealed && owner == \"\":\n"}},
	},
	{
		name:    "the jobs that a round owes have no row",
		want:    "S30",
		journal: true,
		only:    "F17|F19",
		sleep:   1000 * time.Millisecond,
		mix:     manyBatches,
		edits: []edit{{"internal/archive/members.go",
			"	_, err = insert(ctx, conn, a.inserts, acceptedTable, rows)\n", ""}},
	},
}
