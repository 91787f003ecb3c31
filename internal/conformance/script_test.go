package conformance

import (
	"encoding/json"
	"net/http"
	"time"
)

// act is what the fake server does with one call; the zero act answers it as the contract says.
type act struct {
	wait   time.Duration // before the answer is written
	lost   bool          // the call is carried out, and the connection is cut
	cut    bool          // the connection is cut, and the call is not carried out
	status int           // above 0: the call is not carried out, and answered with this status and body
	header map[string]string
	body   string
	short  bool                                  // the body ends before its Content-Length
	change func(answer map[string]any) (any any) // changes the answer to a call that was carried out
}

// refused is an answer that is an error.
func refused(status int, code, detail string) *act {
	text, _ := json.Marshal(problem(status, code, detail)) // only texts and a number
	return &act{status: status, body: string(text)}
}

// says answers a call with a raw body; the call is not carried out.
func says(body string) *act { return &act{status: http.StatusOK, body: body} }

// changed answers a call that is carried out with something else.
func changed(change func(answer map[string]any) any) *act { return &act{change: change} }

// with is changed for one field.
func with(name string, value any) *act {
	return changed(func(answer map[string]any) any {
		answer[name] = value
		return answer
	})
}

func problem(status int, code, detail string) map[string]any {
	return map[string]any{"status": status, "errorCode": code, "detail": detail, "title": "refused"}
}

// early says whether the call is not carried out.
func (a *act) early() bool { return a.cut || a.status > 0 }

// write answers a call.
func (a *act) write(w http.ResponseWriter, r *http.Request, answer map[string]any) {
	if a.wait > 0 {
		select {
		case <-time.After(a.wait):
		case <-r.Context().Done():
		}
	}
	if a.lost || a.cut {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	if a.short {
		w.Header().Set("Content-Length", "1000000")
	}
	if a.status > 0 {
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(a.body)) // the worker may have gone
		return
	}
	var said any = answer
	if a.change != nil {
		said = a.change(answer)
	}
	_ = json.NewEncoder(w).Encode(said)
}
