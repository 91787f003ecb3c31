package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// offered are the job types that submits may name. Accepted jobs of other types still run: the workers have the
// whole registry.
type offered struct {
	*handler.Registry
	only []string // nil = every type
}

// offer makes the types of TIERQ_TYPES. A type that this server does not run is an error.
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

// Check refuses a type that TIERQ_TYPES leaves out with the same error as a type that does not exist.
func (o offered) Check(typ string, payload []byte) error {
	if o.only != nil && !slices.Contains(o.only, typ) {
		return job.ErrUnknownType
	}
	return o.Registry.Check(typ, payload)
}

// Types returns the types that are on, sorted.
func (o offered) Types() []string {
	if o.only == nil {
		return o.Registry.Types()
	}
	on := slices.Clone(o.only)
	slices.Sort(on)
	return slices.Compact(on)
}

// typesWarning returns a warning for a server with API keys whose operator has not set TIERQ_TYPES; "" = no
// warning. Such a server keeps offering every type, as before that setting existed.
func (v *server) typesWarning() string {
	if !v.config.Roles.API || v.config.Types != "" || v.keyring.Open() {
		return ""
	}
	return "every API key without types of its own submits every job type, SIMULATION too, which is for trying tierq out: " +
		"set TIERQ_TYPES to those that you use, or to all"
}
