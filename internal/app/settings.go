package app

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
)

// difference is a setting that another process has with another value.
type difference struct{ setting, here, there, worker string }

// differences returns the settings in which processes that run jobs differ from this process, one for each setting
// and value. A process of an older version reports no settings.
func differences(here map[string]string, workers []job.WorkerInfo) (all []difference) {
	for _, setting := range slices.Sorted(maps.Keys(here)) {
		seen := map[string]bool{here[setting]: true}
		for _, w := range workers {
			there, told := w.Settings[setting]
			if told && !seen[there] {
				seen[there] = true
				all = append(all, difference{setting, here[setting], there, w.Name})
			}
		}
	}
	return all
}

// comparer logs settings that differ between processes: each difference once, and again when it comes back.
type comparer struct {
	here map[string]string
	told map[difference]bool
	log  *slog.Logger
}

func (c *comparer) compare(workers []job.WorkerInfo) {
	now := map[difference]bool{}
	for _, d := range differences(c.here, workers) {
		key := difference{setting: d.setting, there: d.there}
		if now[key] = true; !c.told[key] {
			c.log.Warn("a setting differs between processes: set it to one value on all of them",
				"setting", d.setting, "here", d.here, "there", d.there, "worker", d.worker)
		}
	}
	c.told = now
}

// settingsCheck is the doctor's line about these differences.
func settingsCheck(here map[string]string, workers []job.WorkerInfo) httpapi.AuditCheck {
	var lines []string
	for _, d := range differences(here, workers) {
		lines = append(lines, fmt.Sprintf("%s is %s here and %s in %s", d.setting, d.here, d.there, d.worker))
	}
	if len(lines) > 0 {
		return check("settings", warning, strings.Join(lines, "; "), "set them to the same values on every process")
	}
	return check("settings", fine, "the same on this process and on those that run jobs", "")
}
