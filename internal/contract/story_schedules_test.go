package contract

// schedules is the part of the story about schedules: one is stored, refused, paused, resumed, run, read and deleted.
func (s *server) schedules() {
	s.t.Helper()
	const nightly = `{"cron":"30 2 * * *","timezone":"Europe/Berlin","job":{"tier":"UNPAID","type":"REPORT",` +
		`"payload":{"kind":"jobs","format":"csv"}}}`
	tag := s.want(200, "PUT", "/admin/schedules/nightly", nightly, "If-None-Match", "*").header.Get("ETag")
	s.want(412, "PUT", "/admin/schedules/nightly", nightly, "If-None-Match", "*")
	s.want(200, "PUT", "/admin/schedules/nightly", nightly, "If-Match", tag)
	s.want(200, "PUT", "/admin/schedules/main", `{"everySeconds":1,"overlap":"one","catchUp":"none","jitterSeconds":1,`+
		`"start":"2026-01-01T00:00:00Z","end":"2026-01-02T00:00:00Z","job":{"type":"SIMULATION","maxRetries":0,`+
		`"maxProcessingSeconds":5,"expiresIn":60}}`)
	s.want(400, "PUT", "/admin/schedules/bad", `{"cron":"0 0 30 2 *","job":{"type":"SIMULATION"}}`)
	s.want(404, "PUT", "/admin/schedules/bad", `{"cron":"@daily","job":{"type":"SIMULATION","tier":"nope"}}`)
	s.want(422, "PUT", "/admin/schedules/bad", `{"cron":"@daily","job":{"type":"NOPE"}}`)
	s.want(200, "GET", "/admin/schedules/nightly/next?n=3&from=2026-10-24T00:00:00Z", "")
	s.want(202, "POST", "/admin/schedules/nightly/run", "", "Idempotency-Key", "one")
	s.want(202, "POST", "/admin/schedules/nightly/run", "", "Idempotency-Key", "one")
	s.want(200, "POST", "/admin/schedules/nightly/pause", `{"reason":"a migration"}`)
	s.want(200, "GET", "/admin/schedules/nightly", "")
	s.want(200, "GET", "/admin/schedules", "")
	s.want(200, "POST", "/admin/schedules/nightly/resume", "")
	s.want(404, "GET", "/admin/schedules/nowhere", "")
	s.want(412, "DELETE", "/admin/schedules/nightly", "", "If-Match", `"9"`)
	s.want(204, "DELETE", "/admin/schedules/nightly", "")
}
