package packaging

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/release"
)

// The limits of a first build. It once was 770 packages and 807 MB, most of which served two features.
const (
	mostPackages = 560
	mostMB       = 290 // of modules, without the go.mod files of others
)

// The binary stays within the limits, and the page shows the weight of each module.
func TestWeight(t *testing.T) {
	all, err := release.Weights(t.Context(), root, false)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(root + "/docs/DEPENDENCIES.md")
	if err != nil {
		t.Fatal(err)
	}
	packages, bytes := 0, int64(0)
	for _, w := range all {
		packages, bytes = packages+w.Packages, bytes+w.Bytes
		if w.Module != "std" && !strings.HasPrefix(w.Module, server) && w.Bytes == 0 {
			t.Errorf("%s %s weighs nothing", w.Module, w.Version)
		}
		row := "| " + w.Module + " | "
		_, rest, ok := strings.Cut(string(page), "\n"+row)
		if cells := strings.Split(rest, " | "); !ok ||
			!strings.HasPrefix(w.Module, server) && w.Module != "std" && cells[1] != strconv.Itoa(w.Packages) {
			t.Errorf(
				"docs/DEPENDENCIES.md does not know that %s brings %d packages: make weights",
				w.Module,
				w.Packages,
			)
		}
	}
	if packages > mostPackages || packages < 100 {
		t.Errorf("tierq is built of %d packages, the most is %d", packages, mostPackages)
	}
	if mb := bytes >> 20; mb > mostMB || mb < 50 {
		t.Errorf("its modules have %d MB, the most is %d", mb, mostMB)
	}
}
