-- complete: the holder reports success; the outcome waits in the outbox until SQL has it.
-- KEYS   heartbeat_deadlines run_deadlines queue queues scheduled outbox counters owners doorbell job tried leases
--        checkpoints ended unacked unique reserved events lines
-- ARGV[1] lead_ms: how long the outbox keeps a first attempt from other processes
-- per lease (n = 2, 6, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] attempt: of the lease
-- ARGV[n+2] token: of the lease
-- ARGV[n+3] result: JSON
-- REPLY  per lease: OK ended | CANCELLED ended (a cancel had been asked for) | LOST (not the stored lease; nothing
--        changed)
-- TWICE  the end keeps the lease and the report: the same report again gets the same answer
-- The process that completes a first attempt writes it to SQL from memory: lead_ms is its time for that. A job with a
-- log or a progress goes the other way, because only Redis has these. No reader needs the payload of a completed job:
-- it does not wait for SQL in Redis' memory.
local heartbeat_deadlines, run_deadlines, queue, queues, scheduled, outbox, counters, owners, doorbell, job, tried,
  leases, checkpoints, ended, unacked, unique, reserved, events, lines = unpack(KEYS)
local lead = tonumber(ARGV[1])
local now = time_ms()
local at, after_lead = text(now), text(now + lead)
local reply, answers, record_keys = {}, {}, {}
local events_wanted = has_listeners(events)

local ids = {}
for i = 2, #ARGV, 4 do ids[#ids + 1] = ARGV[i] end
local stored_leases, tried_texts = read_values('HMGET', leases, ids), read_column(tried, ids)

-- first_answer returns the answer to a report that ended the job before.
local function first_answer(id, attempt, token)
  local e = read_ended(ended, id)
  if not e or e.report ~= 'complete' or e.run.attempt ~= attempt or e.run.token ~= token then return 'LOST' end
  return (e.state == 'CANCELLED' and 'CANCELLED ' or 'OK ') .. e.at
end

local end_lines = {} -- lease -> the first line of what is kept of the job
local function end_line_of(lease, state)
  if not end_lines[lease] then
    end_lines[lease] = end_line(state, at, 'complete', lease.class, lease.run_text)
  end
  return end_lines[lease]
end

for i = 2, #ARGV, 4 do
  local id, attempt, token, result = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local lease, head = parse_lease(stored_leases[#reply + 1])
  local word = 'LOST'
  if not lease then
    word = first_answer(id, attempt, token)
  elseif lease.attempt == attempt and lease.token == token then
    word = answers[id] or (lease.cancel and 'CANCELLED ' or 'OK ') .. at
    if not answers[id] then
      answers[id] = word
      end_run(lease, now)
      if lease.cancel then
        local line = end_line_of(lease, 'CANCELLED')
        local t = extras.keep(parse_tried(tried_texts[#reply + 1]), lease)
        end_with_record(checkpoints, id, lease.class, attempt, line, at, head, t)
      else
        count_living(lease.class, -1, bytes_of(head) + checkpoint_bytes(checkpoints, id) + lease.log_bytes)
        add_outbox_bytes(#result + lease.log_bytes)
        record_keys[#record_keys + 1] = job .. id
        local tried_text, has_extras = tried_texts[#reply + 1], lease.log_bytes > 0 or lease.progress ~= ''
        local detail = '- 0\n' .. result
        if tried_text or has_extras then
          detail = format_detail(extras.keep(parse_tried(tried_text), lease), result)
        end
        -- The process has neither a history nor a log in memory: a drainer takes them out of the outbox.
        local visible_at = attempt == '1' and not has_extras and after_lead or at
        note_end(id, lease.class, attempt, end_line_of(lease, 'COMPLETED'), at, head, detail, visible_at)
      end
      if events_wanted then
        note_event(events, id, lease.class.tier, lease.cancel and 'CANCELLED' or 'COMPLETED', attempt)
      end
    end
  end
  reply[#reply + 1] = word
end

bulk('ZREM', heartbeat_deadlines, ended_ids)
bulk('ZREM', run_deadlines, ended_ids)
bulk('HDEL', leases, ended_ids)
bulk_keys('DEL', record_keys)
write_ends(outbox, ended, unacked, tried, checkpoints, reserved)
write_unique(unique, job, scheduled, tried, events, now)
write_entries(queue, queues, doorbell, job, lines)
write_counters(counters, owners)
publish(events, at)
return reply
