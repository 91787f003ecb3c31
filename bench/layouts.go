package main

// What claim.lua and complete.lua write into a job's hash.
const (
	claimed = `'state', 'PROCESSING', 'attempt', attempt, 'first', first_claim, 'started', started,
      'token', token)`
	completed = `'state', 'COMPLETED', 'ended', ended, 'ending', ending, 'result', result,
      'payload', '')`
)

// What is compared. Every variant keeps the checks, the sets, the counters and the replies of the shipped scripts.
var layouts = []layout{
	{name: "a shipped"},
	{
		name: "b field per word", about: traceID, fields: 11,
		edits: map[string][]string{
			"submit": {
				`local head = class.head .. descriptor`, ``,
				`score = score}`, `score = score, retries = max_retries}`,
				`count_living(tier, head, 1, #payload)`, `count_living(tier, '', 1, #payload)`, // of a job without an owner
				`'head', head, 'payload', payload)`,
				`'tier', tier, 'generation', '1', 'maxRetries', class.retries, 'arrivedAt', at, 'score', class.score,
				'type', 'SIMULATION', 'owner', '-',
				'traceId', descriptor, 'payload', payload, 'state', 'PENDING', 'retries', '0')`,
			},
			"claim": {
				`'head', 'payload', 'attempt', 'retries', 'first', 'state', 'checkpoint')`,
				`'tier', 'payload', 'attempt', 'retries', 'first', 'state', 'checkpoint', 'generation', 'maxRetries', ` +
					`'arrivedAt', 'type', 'owner', 'traceId')`,
				`head and parse_head(head)`, `head`,
				`'due')
    add_lease(id, head, payload, attempt, retries, first_claim, started, checkpoint, due)`,
				`'due')
				add_lease(id, head, payload, attempt, retries, first_claim, started, checkpoint, due)
				for k = 8, 13 do reply[#reply + 1] = m[k] end`,
			},
			"complete": {`'cancel', 'head', 'saved')`, `'cancel', 'tier', 'saved')`, `tier_of(head)`, `head`},
			"acknowledge": {`job .. id, 'head', 'attempt'`, `job .. id, 'generation', 'attempt'`,
				`string.match(head, '^%S+ (%d+)')`, `head`},
		},
	},
	{
		name: "c mutable words packed, parsed once a call",
		edits: map[string][]string{
			"claim": {
				`local m = redis.call('HMGET', job .. id, 'head', 'payload', 'attempt', 'retries', 'first', 'state', 'checkpoint')`,
				`local x = redis.call('HMGET', job .. id, 'head', 'payload', 'live')
				local m = {x[1], x[2], false, false, false, false}
				if x[3] then m[6], m[3], m[4], m[5] = string.match(x[3], '^(%S+) (%d+) (%d+) (%d+) ') end`,
				claimed,
				`'live', not last_attempt and live or table.concat({'PROCESSING', attempt, retries or '0', first_claim, ` +
					`started, token}, ' '))`,
				`first_attempt_counts = '1 0 ' .. started .. ' ' .. started`,
				`first_attempt_counts = '1 0 ' .. started .. ' ' .. started
				local live = table.concat({'PROCESSING', '1', '0', started, started, token}, ' ')`,
			},
			"complete": {
				`local m = redis.call('HMGET', job .. id, 'state', 'attempt', 'token', 'ending', 'cancel', 'head', 'saved')`,
				`local x = redis.call('HMGET', job .. id, 'live', 'head', 'cancel')
				local l = lives[x[1]] or read_live(x[1])
				local m = {l[1], l[2], l[3], l[4], x[3], x[2]}
				kept[id] = l.done`,
				`local positions = {}`, `local kept, lives, positions = {}, {}, {}
				local function read_live(said) -- most of a call's jobs have the same
					local state, attempt, retries, first, started, token, ending = string.match(said, '^(%S+) (%d+) (%d+) (%d+) (%d+) (%S+) ?(.*)$')
					local done = table.concat({'COMPLETED', attempt, retries, first, started, token, 'complete OK', ended}, ' ')
					lives[said] = {state, attempt, token, ending ~= '' and ending, done = done}
					return lives[said]
				end`,
				completed,
				`'live', kept[id], 'result', result, 'payload', '')`,
			},
			"acknowledge": {
				`local m = redis.call('HMGET', job .. id, 'head', 'attempt', 'state', 'result')`,
				`local x = redis.call('HMGET', job .. id, 'head', 'live', 'result')
				local m = {x[1], false, false, x[3]}
				m[3], m[2] = string.match(x[2] or '', '^(%S+) (%d+) ')`,
			},
		},
	},
	{
		name: "d payload in its own key",
		edits: map[string][]string{
			"submit": {
				`redis.call('HSET', job .. id, 'head', head, 'payload', payload)`,
				`redis.call('HSET', job .. id, 'head', head)
				redis.call('SET', job .. 'payload:' .. id, payload)`,
			},
			"claim": {
				`local m = redis.call('HMGET', job .. id, 'head', 'payload', 'attempt', 'retries', 'first', 'state', 'checkpoint')`,
				`local m = redis.call('HMGET', job .. id, 'head', 'state', 'attempt', 'retries', 'first', 'state')
				m[2] = redis.call('GET', job .. 'payload:' .. id)`,
			},
			"acknowledge": {`redis.call('HDEL', key, 'payload', 'saved', 'checkpoint')`,
				`redis.call('DEL', job .. 'payload:' .. id)`},
		},
	},
	{name: "h bytes not counted", edits: map[string][]string{
		"prelude":  {`change_counter(tier, 'bytes', n * bytes)`, ``},
		"complete": {`living_bytes(job .. id, saved)`, `0`},
	}},
	{name: "f somebody listens", edits: map[string][]string{"prelude": {
		`listener_cache[channel] = redis.call('EXISTS', channel) == 1`, `listener_cache[channel] = true`,
	}}},
	{name: "g somebody's", about: "SIMULATION abcdefghijklmnop " + traceID},
	{name: "e nothing said twice", edits: map[string][]string{"claim": onlyStarted, "complete": onlyEnding}},
}

// A first attempt's first try is its start, and an ending carries its time.
var (
	onlyStarted = []string{
		claimed,
		`'state', 'PROCESSING', 'attempt', attempt, 'started', started, 'token', token)
		if last_attempt then redis.call('HSET', job .. id, 'first', first_claim) end`,
	}
	onlyEnding = []string{
		completed,
		`'state', 'COMPLETED', 'ending', ending, 'result', result, 'payload', '')`,
	}
)
