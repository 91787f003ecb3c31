package main

import (
	"testing"

	"github.com/tierq/tierq/client/tierqtest"
)

// A program's own test needs no server: tierqtest is a fake one.
func TestDouble(t *testing.T) {
	s := tierqtest.New(t)
	s.Handle("RESIZE", func(j tierqtest.Job) (any, error) {
		return map[string]int{"width": 1024}, nil
	})
	done, err := double(s.Client(), 512)
	if err != nil || string(done.Result) != `{"width":1024}` {
		t.Errorf("%+v, %v", done, err)
	}
	if j := s.Jobs()[0]; j.Queue != "pictures" || string(j.Payload) != `{"width":512}` {
		t.Errorf("submitted: %+v", j)
	}
}
