package client

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadRuns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "runs")
	lines := []string{
		`{"id":"a","key":"k","gen":1,"attempt":1,"pid":7,"sum":"s","what":"start","result":"","at":1000000000}`,
		`{"id":"a","key":"k","gen":1,"attempt":2,"pid":8,"sum":"s","what":"start","result":"","at":3000000000}`,
		`{"id":"a","key":"k","gen":1,"attempt":2,"pid":8,"sum":"s","what":"end","result":"r","at":4000000000}`,
		`{"id":"b","key":"l","gen":2,"attempt":3,"pid":8,"sum":"s","what":"start","result":"","at":5000000000}`,
		`{"id":"b","key":"l","gen":2,"attempt":3,"pid":8,"sum":"s","what":"later","result":"","at":6000000000}`,
	}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	torn := `{"id":"d","key":"m","su`
	write(torn + strings.Join(lines, "\n"+torn) + "\n" + `{"id":"c","key"`)
	runs, err := ReadRuns(path)
	if err != nil || len(runs) != 3 {
		t.Fatalf("%v: %+v", err, runs)
	}
	killed, ended, later := runs[0], runs[1], runs[2]
	if killed.Worker != "7" || !killed.Ended.IsZero() || killed.Began.Unix() != 1 {
		t.Errorf("%+v", killed)
	}
	if ended.Attempt != 2 || ended.Result != "r" || ended.Ended.Unix() != 4 || ended.Sum != "s" {
		t.Errorf("%+v", ended)
	}
	if later.Generation != 2 || later.Result != "" || later.Ended.Unix() != 6 || later.Key != "l" {
		t.Errorf("%+v", later)
	}
	for _, wrong := range []string{`{"id":` + "\n" + lines[0] + "\n", lines[2] + "\n", `{"what":"odd"}` + "\n"} {
		write(wrong)
		if _, err := ReadRuns(path); err == nil {
			t.Errorf("no error for %q", wrong)
		}
	}
	if runs, err := ReadRuns(filepath.Join(t.TempDir(), "none")); err != nil || runs != nil {
		t.Errorf("%v %v", runs, err)
	}
}
