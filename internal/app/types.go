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
			return offered{}, fmt.Errorf("TIERQ_TYPES: this server has no job type %s; it has %s", typ, known)
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
	return "API keys without a list of types submit every job type, also SIMULATION, which is for trying tierq out: " +
		"set TIERQ_TYPES to the types that you use, or to all"
}
