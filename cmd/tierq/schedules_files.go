package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oasdiff/yaml"

	"github.com/tierq/tierq/client"
)

// scheduleFile is a schedule in a file: the body of its PUT, and its name.
type scheduleFile struct {
	Name     string    `json:"name"`
	Cron     string    `json:"cron"`
	Every    int64     `json:"everySeconds"`
	Timezone string    `json:"timezone"`
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
	Jitter   int64     `json:"jitterSeconds"`
	Overlap  string    `json:"overlap"`
	CatchUp  string    `json:"catchUp"`
	Job      struct {
		Tier       string          `json:"tier"`
		Type       string          `json:"type"`
		Payload    json.RawMessage `json:"payload"`
		Queue      string          `json:"queue"`
		Key        string          `json:"key"`
		MaxRetries *int            `json:"maxRetries"`
		MaxRun     int64           `json:"maxProcessingSeconds"`
		Callback   string          `json:"callbackUrl"`
		ExpiresIn  float64         `json:"expiresIn"`
	} `json:"job"`
}

func (f *scheduleFile) schedule() client.Schedule {
	return client.Schedule{
		Name: f.Name, Cron: f.Cron, Every: wholeSeconds(f.Every), Timezone: f.Timezone, Start: f.Start, End: f.End,
		Jitter: wholeSeconds(f.Jitter), Overlap: client.Overlap(f.Overlap),
		CatchUp: client.CatchUp(f.CatchUp),
		Job: client.ScheduledJob{
			Tier: client.Tier(strings.ToUpper(f.Job.Tier)), Type: f.Job.Type, Payload: f.Job.Payload, Queue: f.Job.Queue,
			Key: f.Job.Key, MaxRetries: f.Job.MaxRetries, MaxRun: wholeSeconds(f.Job.MaxRun),
			Callback: f.Job.Callback, ExpiresIn: time.Duration(f.Job.ExpiresIn * float64(time.Second)),
		},
	}
}

// wholeSeconds returns a number of seconds. The server refuses a number that is too large for its member, so it needs
// not be kept exactly.
func wholeSeconds(n int64) time.Duration {
	const most = 1 << 32
	return time.Duration(max(min(n, most), -most)) * time.Second
}

// readSchedules reads the schedules of files and folders, by name. A name may be there once.
func readSchedules(paths []string) (all []client.Schedule, err error) {
	for _, path := range paths {
		files := []string{path}
		info, err := os.Stat(path)
		if err != nil {
			return nil, failure{err}
		}
		if info.IsDir() {
			if files, err = filesIn(path); err != nil {
				return nil, failure{err}
			}
		}
		for _, file := range files {
			s, err := readSchedule(file)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(all, func(o client.Schedule) bool { return o.Name == s.Name }) {
				return nil, misused("%s: the schedule %s is there twice", file, s.Name)
			}
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil, misused("no schedule is in %s", strings.Join(paths, ", "))
	}
	slices.SortFunc(all, func(a, b client.Schedule) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func filesIn(folder string) (files []string, err error) {
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

func readSchedule(file string) (s client.Schedule, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return s, failure{err}
	}
	if filepath.Ext(file) != ".json" {
		if documents(text) > 1 {
			return s, misused("%s: has more than one schedule: a file has one", file)
		}
		if text, err = yaml.YAMLToJSON(text); err != nil {
			return s, misused("%s: %v", file, err)
		}
	}
	if text = bytes.TrimSpace(text); len(text) == 0 || string(text) == "null" {
		return s, misused("%s: has no schedule", file)
	}
	var f scheduleFile
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return s, misused("%s: %s", file, plainJSON(err))
	}
	if d.More() {
		return s, misused("%s: has more than one schedule: a file has one", file)
	}
	f.Name = cmp.Or(f.Name, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
	return f.schedule(), nil
}

// documents counts the documents of a YAML file that are not empty. A line that begins with --- separates documents.
func documents(text []byte) (n int) {
	inside := false
	for line := range strings.Lines(string(text)) {
		bare := strings.TrimSpace(line)
		if rest, dashes := strings.CutPrefix(line, "---"); dashes && strings.TrimSpace(rest[:min(len(rest), 1)]) == "" {
			inside, bare = false, strings.TrimSpace(rest)
		}
		if bare != "" && bare[0] != '#' && !inside {
			inside = true
			n++
		}
	}
	return n
}

// plainJSON says what is wrong with a file in words that name its members.
func plainJSON(err error) string {
	var wrong *json.UnmarshalTypeError
	var noTime *time.ParseError
	switch {
	case errors.As(err, &wrong) && wrong.Field == "":
		return "must be one schedule: an object such as {\"cron\": ..., \"job\": {...}}"
	case errors.As(err, &wrong):
		return wrong.Field + ": " + wrong.Value + " does not fit"
	case errors.As(err, &noTime):
		return noTime.Value + " is no time such as 2026-12-01T08:00:00Z"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}
