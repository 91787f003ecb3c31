// Package lua is the state machine: one script, one transition. The scripts' headers are their signatures (KEYS, ARGV, REPLY, and why
// each may be sent twice); docs/STATES.md shows how they move a job. This package only embeds them.
package lua

import _ "embed" // the scripts are read at build time: a missing one fails the build

// Prelude stands in front of every script.
//
//go:embed prelude.lua
var Prelude string

// The scripts, as they stand in the files of these names.
var (
	//go:embed submit.lua
	Submit string
	//go:embed claim.lua
	Claim string
	//go:embed heartbeat.lua
	Heartbeat string
	//go:embed complete.lua
	Complete string
	//go:embed fail.lua
	Fail string
	//go:embed release.lua
	Release string
	//go:embed reclaim.lua
	Reclaim string
	//go:embed promote.lua
	Promote string
	//go:embed cancel.lua
	Cancel string
	//go:embed requeue.lua
	Requeue string
	//go:embed restore.lua
	Restore string
	//go:embed take_outbox.lua
	TakeOutbox string
	//go:embed acknowledge.lua
	Acknowledge string
	//go:embed forget.lua
	Forget string
	//go:embed audit.lua
	Audit string
	//go:embed recount.lua
	Recount string
	//go:embed rate.lua
	Rate string
)
