package main

// What is compared. Every variant keeps the checks, the sets, the counters and the replies of the shipped scripts.
var layouts = []layout{
	{name: "a shipped"},
	{
		name: "b field per word", about: traceID, fields: 14,
		edits: map[string][]string{
			"submit": {
				`local head = table.concat({tier, '1', ARGV[i + 5], at, score, ARGV[i + 6]}, ' ')`, ``,
				`own(head, 1)`, ``, // nobody's
				`'head', head, 'payload', ARGV[i + 7])`,
				`'tier', tier, 'generation', '1', 'maxRetries', ARGV[i + 5], 'arrivedAt', at, 'score', score, 'type', 'SIMULATION', 'owner', '-',
				'traceId', ARGV[i + 6], 'payload', ARGV[i + 7], 'state', 'PENDING', 'retries', '0')`,
			},
			"claim": {
				`'head', 'payload', 'attempt', 'retries', 'first', 'state', 'checkpoint')`,
				`'tier', 'payload', 'attempt', 'retries', 'first', 'state', 'checkpoint', 'generation', 'maxRetries', 'arrivedAt', 'type', 'owner', 'traceId')`,
				`m[1] and parse(m[1])`, `m[1]`,
				`hand_out(id, m[1], m[2], attempt, m[4], first, started, m[7])`,
				`hand_out(id, m[1], m[2], attempt, m[4], first, started, m[7])
				for k = 8, 13 do reply[#reply + 1] = m[k] end`,
			},
			"complete":    {`'cancel', 'head')`, `'cancel', 'tier')`, `tier_of(m[6])`, `m[6]`},
			"acknowledge": {`key, 'head', 'attempt'`, `key, 'generation', 'attempt'`, `string.match(m[1], '^%S+ (%d+)')`, `m[1]`},
		},
	},
	{
		name: "c mutable words packed",
		edits: map[string][]string{
			"claim": {
				`local m = redis.call('HMGET', job .. id, 'head', 'payload', 'attempt', 'retries', 'first', 'state', 'checkpoint')`,
				`local x = redis.call('HMGET', job .. id, 'head', 'payload', 'live')
				local m = {x[1], x[2], false, false, false, false}
				if x[3] then m[6], m[3], m[4], m[5] = string.match(x[3], '^(%S+) (%d+) (%d+) (%d+) ') end`,
				`'state', 'PROCESSING', 'attempt', attempt, 'first', first, 'started', started, 'token', token)`,
				`'live', table.concat({'PROCESSING', attempt, m[4] or '0', first, started, token}, ' '))`,
			},
			"complete": {
				`local m = redis.call('HMGET', job .. id, 'state', 'attempt', 'token', 'ending', 'cancel', 'head')`,
				`local x = redis.call('HMGET', job .. id, 'live', 'head', 'cancel')
				local m, retries, first, started = {}
				m[1], m[2], retries, first, started, m[3], m[4] = string.match(x[1] or '', '^(%S+) (%d+) (%d+) (%d+) (%d+) (%S+) ?(.*)$')
				if m[4] == '' then m[4] = nil end
				m[5], m[6] = x[3], x[2]
				kept[id] = {retries, first, started}`,
				`local ends = {}`, `local kept, ends = {}, {}`,
				`'state', 'COMPLETED', 'ended', ended, 'ending', 'complete ' .. word, 'result', result, 'payload', '')`,
				`'live', table.concat({'COMPLETED', ARGV[i + 1], kept[id][1], kept[id][2], kept[id][3], ARGV[i + 2], 'complete', word}, ' '), 'result', result, 'payload', '')`,
			},
			"acknowledge": {
				`local m = redis.call('HMGET', key, 'head', 'attempt', 'state', 'result')`,
				`local x = redis.call('HMGET', key, 'head', 'live', 'result')
				local m = {x[1], false, false, x[3]}
				m[3], m[2] = string.match(x[2] or '', '^(%S+) (%d+) ')`,
			},
		},
	},
	{
		name: "d payload in its own key",
		edits: map[string][]string{
			"submit": {
				`redis.call('HSET', job .. id, 'head', head, 'payload', ARGV[i + 7])`,
				`redis.call('HSET', job .. id, 'head', head)
				redis.call('SET', job .. 'payload:' .. id, ARGV[i + 7])`,
			},
			"claim": {
				`local m = redis.call('HMGET', job .. id, 'head', 'payload', 'attempt', 'retries', 'first', 'state', 'checkpoint')`,
				`local m = redis.call('HMGET', job .. id, 'head', 'state', 'attempt', 'retries', 'first', 'state')
				m[2] = redis.call('GET', job .. 'payload:' .. id)`,
			},
			"acknowledge": {`redis.call('HDEL', key, 'payload', 'saved', 'checkpoint')`, `redis.call('DEL', job .. 'payload:' .. id)`},
		},
	},
	{name: "f somebody listens", edits: map[string][]string{"prelude": {`heard = redis.call('EXISTS', events) == 1`, `heard = true`}}},
	{name: "g somebody's", about: "SIMULATION abcdefghijklmnop " + traceID},
	{name: "e nothing said twice", edits: map[string][]string{"claim": onlyStarted, "complete": onlyEnding}},
}

// A first attempt's first try is its start, and an ending carries its time.
var (
	onlyStarted = []string{
		`'state', 'PROCESSING', 'attempt', attempt, 'first', first, 'started', started, 'token', token)`,
		`'state', 'PROCESSING', 'attempt', attempt, 'started', started, 'token', token)
		if m[3] then redis.call('HSET', job .. id, 'first', first) end`,
	}
	onlyEnding = []string{
		`'state', 'COMPLETED', 'ended', ended, 'ending', 'complete ' .. word, 'result', result, 'payload', '')`,
		`'state', 'COMPLETED', 'ending', 'complete ' .. word, 'result', result, 'payload', '')`,
	}
)
