package web

import (
	"slices"
	"strings"
)

// The sizes of a drawing, in pixels, and how many jobs and lines it has at most.
const (
	flowBoxW, flowBoxH = 168, 44
	flowGapX, flowGapY = 56, 16
	flowMargin         = 12
	flowNameRunes      = 18
	maxDrawnJobs       = 200
	maxDrawnEdges      = 1000
)

// DrawFlow draws the jobs of a flow, whose dependencies have no circle; nil if there are too many.
func DrawFlow(jobs []FlowJob) *FlowDrawing {
	edges := 0
	for i := range jobs {
		edges += len(jobs[i].Parents)
	}
	if len(jobs) == 0 || len(jobs) > maxDrawnJobs || edges > maxDrawnEdges {
		return nil
	}
	columns := flowColumns(jobs)
	d, at := &FlowDrawing{}, map[string]FlowNode{}
	tallest := 0
	for _, column := range columns {
		tallest = max(tallest, len(column))
	}
	d.Width = 2*flowMargin + len(columns)*flowBoxW + (len(columns)-1)*flowGapX
	d.Height = 2*flowMargin + tallest*flowBoxH + (tallest-1)*flowGapY
	for i, column := range columns {
		// Each column stands in the middle.
		top := (d.Height - len(column)*flowBoxH - (len(column)-1)*flowGapY) / 2
		for k, j := range column {
			n := FlowNode{
				X: flowMargin + i*(flowBoxW+flowGapX), Y: top + k*(flowBoxH+flowGapY), W: flowBoxW, H: flowBoxH,
				Name: flowName(j.Name), Status: j.Status,
			}
			at[j.Name] = n
			d.Nodes = append(d.Nodes, n)
		}
	}
	for i := range jobs {
		to := at[jobs[i].Name]
		for _, parent := range jobs[i].Parents {
			from := at[parent]
			d.Edges = append(d.Edges, FlowEdge{
				FromX: from.X + from.W, FromY: from.Y + from.H/2, MidX: to.X - flowGapX/2, ToX: to.X, ToY: to.Y + to.H/2,
			})
		}
	}
	return d
}

// flowColumns puts each job into the column behind the last of those that it waits for, and orders a column by where
// these stand, so that few lines cross.
func flowColumns(jobs []FlowJob) [][]*FlowJob {
	byName, depth := make(map[string]*FlowJob, len(jobs)), make(map[string]int, len(jobs))
	for i := range jobs {
		byName[jobs[i].Name] = &jobs[i]
	}
	var deep func(j *FlowJob) int
	deep = func(j *FlowJob) int {
		if d, known := depth[j.Name]; known {
			return d
		}
		depth[j.Name] = 0
		d := 0
		for _, parent := range j.Parents {
			if p := byName[parent]; p != nil {
				d = max(d, deep(p)+1)
			}
		}
		depth[j.Name] = d
		return d
	}
	var columns [][]*FlowJob
	for i := range jobs {
		d := deep(&jobs[i])
		for len(columns) <= d {
			columns = append(columns, nil)
		}
		columns[d] = append(columns[d], &jobs[i])
	}
	place := map[string]float64{}
	for _, column := range columns {
		slices.SortStableFunc(column, func(a, b *FlowJob) int {
			switch x, y := middle(a, place), middle(b, place); {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return strings.Compare(a.Name, b.Name)
		})
		for k, j := range column {
			place[j.Name] = (float64(k) + 0.5) / float64(len(column))
		}
	}
	return columns
}

// middle is the mean place of what a job waits for.
func middle(j *FlowJob, place map[string]float64) (sum float64) {
	if len(j.Parents) == 0 {
		return 0
	}
	for _, parent := range j.Parents {
		sum += place[parent]
	}
	return sum / float64(len(j.Parents))
}

// flowName shortens a name to what fits into a box: its end tells more than its beginning.
func flowName(name string) string {
	runes := []rune(name)
	if len(runes) <= flowNameRunes {
		return name
	}
	return "…" + string(runes[len(runes)-flowNameRunes+1:])
}
