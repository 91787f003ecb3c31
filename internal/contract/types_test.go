package contract

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tierq/tierq/web"
)

// The page for submits offers every job type by each of its names. The description and the handler accept each of
// its examples.
func TestTypes_TheExamplesOfThePagesAreTaken(t *testing.T) {
	c, types := load(t), builtIn()
	var offered []string
	for _, typ := range web.NewSet().Types() {
		if len(typ.Examples) == 0 {
			t.Errorf("%s has no example", typ.Name)
		}
		for _, name := range append([]string{typ.Name}, typ.Also...) {
			offered = append(offered, name)
			for _, e := range typ.Examples {
				if err := types.Check(name, e.Payload); err != nil {
					t.Errorf("%s, %q: the handler says %v", name, e.Title, err)
				}
				for schema, member := range map[string]string{"Submit": "type", "CreateApiJob": "jobType"} {
					if err := c.Fits(schema, fmt.Appendf(nil, `{%q:%q,"payload":%s}`, member, name, e.Payload)); err != nil {
						t.Errorf("%s, %q: the description says %v", name, e.Title, err)
					}
				}
			}
		}
	}
	slices.Sort(offered)
	if registered := types.Types(); !slices.Equal(offered, registered) {
		t.Errorf("offered are %q, registered %q", offered, registered)
	}
}
