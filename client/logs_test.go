package client

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
)

// FollowLogs goes on behind the last line that it got, over cut connections, servers that drain and refusals: it
// misses none and repeats none.
func TestFollowLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 40
		asked := 0
		c := New("http://tierq", WithHTTPClient(&http.Client{Transport: wire(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path != "/api/jobs/"+unknownID+"/logs" || r.URL.Query().Get("level") != "INFO" {
				return reply(400, `{"errorCode":"INVALID_REQUEST"}`), nil
			}
			asked++
			after, _ := strconv.Atoi(r.URL.Query().Get("after"))
			switch asked % 4 {
			case 1:
				return nil, fmt.Errorf("the connection is cut")
			case 2:
				return reply(503, `{"errorCode":"SYSTEM_UNHEALTHY"}`), nil
			case 3: // no line, at once: the server drains
				return reply(200, fmt.Sprintf(`{"items":[],"after":%d,"more":false,"ended":false}`, after)), nil
			}
			items := ""
			for n := after + 1; n <= min(after+4, all); n++ {
				items += fmt.Sprintf(`,{"seq":%d,"attempt":1,"at":"2026-05-01T11:31:57.961931Z","level":"INFO","text":"%d"}`, n, n)
			}
			last := min(after+4, all)
			return reply(200, fmt.Sprintf(`{"items":[%s],"after":%d,"more":false,"ended":%t}`, items[min(1, len(items)):], last,
				last == all)), nil
		})}))
		var got []int64
		err := c.FollowLogs(t.Context(), unknownID, LogFilter{Level: "INFO"}, func(l LogLine) { got = append(got, l.Seq) })
		if err != nil || len(got) != all {
			t.Fatalf("%v, %d lines: %v", err, len(got), got)
		}
		for i, seq := range got {
			if seq != int64(i+1) {
				t.Fatalf("line %d is %d", i, seq)
			}
		}
		if asked < 40 {
			t.Errorf("only %d requests", asked)
		}
	})
}

func TestLogs_UnknownJob(t *testing.T) {
	_, c := newServer(t)
	if _, err := c.Logs(soon(t), unknownID, LogFilter{}); err == nil {
		t.Error("an unknown job has logs")
	}
	if _, err := c.Logs(soon(t), "../x", LogFilter{}); err == nil {
		t.Error("a text that is no id was asked for")
	}
}
