package check

import (
	"fmt"
	"net/http"
)

// ownership is S17: for a caller with another key a job does not exist, whatever the request is, and every store
// keeps the job's owner.
func ownership(e Evidence, w Witness) (all []Violation) {
	for i := range w.Strangers {
		s := &w.Strangers[i]
		switch s.HTTP {
		case 0, http.StatusNotFound, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		default:
			all = append(all, Violation{"S17", string(s.ID),
				fmt.Sprintf("%s with another's key was answered %d at %s", s.Method, s.HTTP, clock(s.At))})
		}
	}
	if w.Shut > 0 {
		all = append(all, Violation{"S17", "keys", fmt.Sprintf("keys that open were answered 401 or 403, %d times", w.Shut)})
	}
	of := keys(e)
	for _, o := range w.Owners {
		if asked, ok := w.Asked[of[o.ID]]; ok && asked.Owner != o.Owner {
			all = append(all, Violation{"S17", string(o.ID),
				fmt.Sprintf("generation %d belongs to %q, its submit came with the key %q", o.Generation, o.Owner, asked.Owner)})
		}
	}
	return all
}
