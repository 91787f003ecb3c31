package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// offered are the job types that submits may name. Jobs of other types that were accepted already run all the same: the
// workers have the whole registry.
type offered struct {
	*handler.Registry
	only []string // nil = every type
}

// offer makes them of TIERQ_TYPES: an error for a type that this server does not run.
func offer(r *handler.Registry, only []string) (offered, error) {
	all := r.Types()
	for _, typ := range only {
		if !slices.Contains(all, typ) {
			known := strings.Join(all, ", ")
			return offered{}, fmt.Errorf("TIERQ_TYPES: %s is no job type of this server; there are %s", typ, known)
		}
	}
	return offered{r, only}, nil
}

// Check refuses a type that TIERQ_TYPES leaves out with the words for a type that does not exist.
func (o offered) Check(typ string, payload []byte) error {
	if o.only != nil && !slices.Contains(o.only, typ) {
		return job.ErrUnknownType
	}
	return o.Registry.Check(typ, payload)
}

// Types lists those that are on, sorted.
func (o offered) Types() []string {
	if o.only == nil {
		return o.Registry.Types()
	}
	on := slices.Clone(o.only)
	slices.Sort(on)
	return slices.Compact(on)
}

// typesWarning is for a server with API keys whose operator has not said which job types are on; "" = there is nothing
// to say. A server that had keys before there was TIERQ_TYPES goes on with what it had.
func (v *server) typesWarning() string {
	if !v.config.Roles.API || v.config.Types != "" || v.keyring.Open() {
		return ""
	}
	return "every API key without types of its own submits every job type, SIMULATION too, which is for trying tierq out: " +
		"set TIERQ_TYPES to those that you use, or to all"
}
