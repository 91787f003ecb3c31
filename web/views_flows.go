package web

import "time"

// FlowRow is a flow in the list.
type FlowRow struct {
	ID        string
	Name      string
	State     string
	Done      int // jobs that are COMPLETED
	Jobs      int
	Failed    int // jobs that are FAILED, CANCELLED or EXPIRED
	CreatedAt time.Time
	EndedAt   time.Time // zero = not all jobs have ended
}

// FlowsView is /flows: the flows that the caller may see, the latest first.
type FlowsView struct {
	Frame
	State string // the filter; "" = all
	Flows []FlowRow
	More  string // address of older flows; "" = there are none
}

// FlowJob is a job of a flow. Parents are the names that it waits for, patterns resolved.
type FlowJob struct {
	Name      string
	ID        string
	Status    string
	Tier      string
	Type      string
	After     []string
	Parents   []string
	OnFailure string
	Cause     string
}

// FlowView is /flows/<id>: one flow with its jobs and a drawing. Its form cancels it.
type FlowView struct {
	Frame
	FlowRow
	Asked     bool // somebody asked to cancel it
	Jobs      []FlowJob
	Drawing   *FlowDrawing // nil = there are too many jobs to draw
	CanCancel bool
}

// FlowDrawing is a picture of a flow: columns of jobs from left to right, each right of all that it waits for.
type FlowDrawing struct {
	Width, Height int
	Nodes         []FlowNode
	Edges         []FlowEdge
}

// FlowNode is a job in the drawing: a box with its name, shortened, and its status.
type FlowNode struct {
	X, Y, W, H   int
	Name, Status string
}

// FlowEdge is a line from the right side of a job to the left side of a job that waits for the first.
type FlowEdge struct{ FromX, FromY, MidX, ToX, ToY int }
