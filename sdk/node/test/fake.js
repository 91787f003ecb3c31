// A server of worker calls, and of submits and polls: it hands out jobs, and keeps what it is told.
import assert from 'node:assert/strict';
import http from 'node:http';

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Fake {
  jobs = []; // to be handed out
  claims = new Map(); // the leases of a claim, by its id
  out = new Map(); // the jobs that were handed out, by lease
  ends = new Map(); // the report that ended a lease
  counts = {}; // calls, by verb
  words = {}; // the answer to a lease's heartbeats; OK without one
  saved = {}; // checkpoints, by lease, with their numbers
  tells = {}; // progress, by lease
  logs = {}; // lines, by lease, with their numbers; 'lost' stands for null
  carried = 0; // reports that came with claims
  most = 0; // leases of one heartbeat
  state = 'run';
  leaseMs = 30_000;
  keys = new Map(); // submitted jobs, by Idempotency-Key
  bodies = []; // of submits and batches
  flows = []; // the answers about flows, batches and schedules, in the same way as polls
  queries = []; // of these calls
  away = {}; // how often the lines of a lease are refused for now
  ifs = []; // of these calls: the versions that they ask for
  logged = [{ items: [{ seq: 1, level: 'INFO', text: 'one' }], after: 1, more: false, ended: true }];
  polls = []; // the answers to polls, in their order; the last one repeats
  copies = new Set(); // of claims: their ids and repeats
  wrong = [];
  refusal = {}; // more members of a refusal
  entry; // the answer to an entry of many submits; undefined: it is taken
  mostBytes = Infinity; // of a body; a larger one is 413
  oddBatches = []; // in place of the next answers to many submits, which are carried out
  odd = []; // in place of the next answers to calls, which are carried out; a text is sent as it is, a function sends
  oddly = {}; // the same, by verb
  pulse = () => undefined; // the answer to an entry of a heartbeat; undefined: the usual one
  leaseEnds = new Map(); // by lease
  beaten = new Set(); // leases that were in a heartbeat
  lapsed = []; // leases that were extended, or whose report came, after their end
  heldMs; // of claims and heartbeats
  hasty = false; // a claim is answered at once
  stops = []; // what to do before the server ends
  // Decides what becomes of the nth call of a verb: 0, it is answered; 1, it is carried out and its answer is lost;
  // above, it is refused with this status.
  fault = () => 0;

  static async start(t) {
    const fake = new Fake();
    fake.http = http.createServer((q, a) => fake.serve(q, a));
    await new Promise((resolve) => fake.http.listen(0, '127.0.0.1', resolve));
    fake.url = `http://127.0.0.1:${fake.http.address().port}`;
    t.after(async () => {
      for (const stop of fake.stops) await stop();
      fake.http.closeAllConnections();
      fake.http.close();
      assert.deepEqual(fake.wrong, []);
    });
    return fake;
  }

  // Queues a job whose lease is its id.
  add(id, type, payload, more = {}) {
    this.jobs.push({
      jobId: id, type, queue: 'pictures', tier: 'PAID', payload, attempt: 1, retryCount: 0, maxRetries: 5,
      generation: 1, checkpoint: null, traceId: null, traceparent: null, lease: `lease-${id}`, leaseForMs: this.leaseMs,
      heartbeatEveryMs: Math.floor(this.leaseMs / 3), endsInMs: 600_000, ...more,
    });
  }

  async serve(q, a) {
    const parts = [];
    for await (const part of q) parts.push(part);
    const bytes = Buffer.concat(parts);
    const body = bytes.toString();
    if (bytes.length > this.mostBytes) return answer(a, 413, { errorCode: 'PAYLOAD_TOO_LARGE', detail: 'too large' });
    const { pathname } = new URL(q.url, this.url);
    const verb = pathname.startsWith('/api/worker/') ? pathname.split('/').pop() : `${q.method} ${pathname}`;
    this.counts[verb] = (this.counts[verb] ?? 0) + 1;
    if (verb === 'claim') this.numbered(JSON.parse(body));
    const fault = this.fault(verb, this.counts[verb], body);
    if (fault > 1) {
      return answer(a, fault, { status: fault, errorCode: 'REFUSED', detail: 'by the test', ...this.refusal });
    }
    const serve = { claim: this.claim, heartbeat: this.heartbeat, report: this.report, log: this.log }[verb];
    const gone = () => a.destroyed;
    const said = serve ? await serve.call(this, JSON.parse(body), gone) : this.client(q, verb, body);
    if (fault === 1) return q.socket.destroy();
    if (this.oddly[verb]?.length) return answer(a, 200, this.oddly[verb].shift());
    if (this.odd.length) return answer(a, 200, this.odd.shift());
    return answer(a, 200, said);
  }

  // Checks that a claim says how often it was sent before. A copy may arrive after a later one.
  numbered({ claimId, repeat = 0 }) {
    const copy = `${claimId} ${repeat}`;
    if (this.copies.has(copy)) this.wrong.push(`claim ${claimId} says repeat ${repeat} again`);
    this.copies.add(copy);
  }

  async claim(body, gone) {
    this.carried += body.reports?.length ?? 0;
    const reported = this.end(body.reports ?? []);
    const jobs = (this.claims.get(body.claimId) ?? []).filter((l) => !this.ends.has(l)).map((l) => this.out.get(l));
    for (const end = Date.now() + 1000 * body.wait; jobs.length === 0; ) {
      while (this.jobs.length && jobs.length < body.max) {
        const job = this.jobs.shift();
        this.out.set(job.lease, job);
        this.leaseEnds.set(job.lease, Date.now() + this.leaseMs);
        this.claims.set(body.claimId, [...(this.claims.get(body.claimId) ?? []), job.lease]);
        jobs.push(job);
      }
      if (jobs.length || this.hasty || Date.now() > end || this.state === 'terminate' || gone()) break;
      await sleep(2);
    }
    return { state: this.state, retryAfterMs: 0, reported, heldMs: this.heldMs, jobs };
  }

  // Takes reports. The first one of a lease counts, and a repeat gets the same answer.
  end(reports) {
    return reports.map((entry) => {
      if (this.words[entry.lease] === 'LOST') return { error: { status: 409, errorCode: 'LEASE_LOST' } };
      this.seen(entry.lease, Infinity);
      const before = this.ends.get(entry.lease);
      if (before && JSON.stringify(before) !== JSON.stringify(entry)) this.wrong.push([before, entry]);
      this.ends.set(entry.lease, entry);
      return { outcome: 'COMPLETED' };
    });
  }

  report(body) {
    return { reports: this.end(body.reports) };
  }

  heartbeat(body) {
    this.most = Math.max(this.most, body.leases.length);
    const leases = body.leases.map((entry) => {
      const { lease, save, checkpoint, progress } = entry;
      this.seen(lease, this.leaseMs);
      this.beaten.add(lease);
      const said = this.pulse(entry);
      if (said) return said;
      if (progress) (this.tells[lease] ??= []).push(progress);
      if (save) (this.saved[lease] ??= []).push([save, checkpoint]);
      return { word: this.words[lease] ?? 'OK', leaseForMs: this.leaseMs };
    });
    return { state: this.state, leases, heldMs: this.heldMs };
  }

  // Keeps the lines of logs; a repeat adds none twice. After the report of a lease there must be no lines.
  log(body) {
    return {
      logs: body.logs.map(({ lease, from, lines }) => {
        if (this.words[lease] === 'LOST') return { error: { status: 409, errorCode: 'LEASE_LOST' } };
        if (this.away[lease]-- > 0) return { error: { status: 503, errorCode: 'SYSTEM_UNHEALTHY' } };
        if (this.ends.has(lease)) this.wrong.push(`lines of ${lease} after its report`);
        const kept = (this.logs[lease] ??= []);
        lines.forEach((line, i) => {
          if (kept.some(([number]) => number === from + i)) return;
          if (line === null) return kept.push([from + i, 'lost']);
          const { level, text, attrs, ageMs } = line;
          if (!(ageMs >= 0)) this.wrong.push(`a line is ${ageMs} ms old`);
          return kept.push([from + i, level, text, ...(attrs ? [attrs] : [])]);
        });
        return { outcome: 'OK' };
      }),
    };
  }

  client(q, verb, body) {
    if (verb === 'inputs' || ['/api/flows', '/api/batches', '/admin/schedules'].some((of) => verb.includes(of))) {
      this.queries.push(q.url.split('?')[1] ?? '');
      this.ifs.push(q.headers['if-match'] ?? q.headers['if-none-match']);
      this.bodies.push([verb, JSON.parse(body || 'null')]);
      return this.flows.length > 1 ? this.flows.shift() : this.flows[0];
    }
    const idOf = (key) => {
      if (!this.keys.has(key)) this.keys.set(key, `job-${this.keys.size}`);
      return this.keys.get(key);
    };
    if (/\/submit(\/batch)?$/.test(verb)) this.bodies.push(JSON.parse(body));
    if (verb.endsWith('/submit')) return { apiResponseData: { jobId: idOf(q.headers['idempotency-key']) } };
    if (verb.endsWith('/submit/batch')) {
      const answers = JSON.parse(body).map((entry) => entry.type === 'NONE'
        ? { errorCode: 'UNKNOWN_JOB_TYPE', detail: 'there is no such type' }
        : this.entry?.(entry) ?? { jobId: idOf(entry.idempotencyKey) });
      return this.oddBatches.length ? this.oddBatches.shift() : { apiResponseData: answers };
    }
    if (verb.endsWith('/logs')) {
      this.bodies.push(q.url);
      return this.logged.length > 1 ? this.logged.shift() : this.logged[0];
    }
    if (verb === 'GET /result/poll') {
      const said = this.polls.length > 1 ? this.polls.shift() : this.polls[0];
      return { apiResponseData: { jobId: 'job-0', jobTier: 'PAID', type: 'RESIZE', ...said } };
    }
    return { jobId: 'job-0', status: 'CANCELLED' };
  }

  // Sees that a lease is extended, or with a report ends. One that had run out by then is lapsed.
  seen(lease, left) {
    if (Date.now() > this.leaseEnds.get(lease) + 20) this.lapsed.push(lease);
    this.leaseEnds.set(lease, Date.now() + left);
  }

  // Waits for the report of a job, and returns it without its lease.
  async reported(id) {
    await this.until(`the report of ${id}`, () => this.ends.has(`lease-${id}`));
    const { lease, ...entry } = this.ends.get(`lease-${id}`);
    return entry;
  }

  async until(what, holds) {
    for (const end = Date.now() + 20_000; !holds(); await sleep(2)) {
      if (Date.now() > end) throw new Error(`not within 20 s: ${what}; ${JSON.stringify(this.counts)}`);
    }
  }
}

function answer(a, status, said) {
  if (typeof said === 'function') return said(a);
  a.writeHead(status, { 'Content-Type': 'application/json' });
  a.end(typeof said === 'string' ? said : JSON.stringify(said));
}
