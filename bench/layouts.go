package main

// What is compared. Every variant keeps the checks, the sets, the counters and the replies of the shipped scripts.
var layouts = []layout{
	{name: "a shipped"},
	{name: "b slices of 65 s", edits: map[string][]string{"prelude": {
		`local function slice_of(id) return string.sub(id, 1, 11) end`,
		`local function slice_of(id) return string.sub(id, 1, 8) end`,
	}}},
	{name: "c a slice per job", edits: map[string][]string{"prelude": {
		`local function slice_of(id) return string.sub(id, 1, 11) end`,
		`local function slice_of(id) return id end`,
	}}},
	{name: "h bytes not counted", edits: map[string][]string{"prelude": {
		`change_counter(class.tier, 'bytes', n * bytes)`, ``,
	}}},
	{name: "f somebody listens", edits: map[string][]string{"prelude": {
		`listener_cache[channel] = redis.call('EXISTS', channel) == 1`, `listener_cache[channel] = true`,
	}}},
	{name: "g somebody's", owner: "abcdefghijklmnop"},
}
