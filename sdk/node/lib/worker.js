// Runs the jobs of a server in this program.
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { Server, pause, rest } from './call.js';
import { Stopping, TierqError, UnknownType } from './errors.js';
import { Job } from './job.js';
import { CALL_TIME, MOST_BYTES, Reports, reportOf } from './report.js';
import { Logs } from './tell.js';

const CLAIM_WAIT = 20; // seconds that the server holds a claim while there is no job
const CLAIM_LIFE = 45_000; // ms for which a claim is repeated with its id; the server remembers it for a minute
const GRACE = 5000; // ms for handlers that were told to stop, and for the answers to the last reports
const MOST_CLAIM = 100;
const MOST_BEATS = 1000;

export class Worker {
  hungry = false; // the claimer makes a claim as soon as a place is free, and takes reports along
  #server;
  #queues;
  #tiers;
  #lease;
  #version;
  #drain;
  #places;
  #free;
  #handlers = new Map();
  #held = new Map(); // by lease, until the server has answered their report
  #reports = new Reports(this);
  #logs = new Logs(this, this.#held);
  #stop = new AbortController(); // nothing is claimed any more
  #over = new AbortController(); // the loops end
  #begun = false;
  #freed = () => {};
  #beat = () => {};

  constructor(url, queues, options = {}) {
    const {
      key = process.env.TIERQ_KEY, concurrency = 10, tiers, lease, drain = 25_000, name = ownName(), version,
    } = options;
    if (version !== undefined && !/^[ -~]{1,64}$/.test(version)) {
      throw new TypeError('the version must be 1 to 64 visible ASCII characters');
    }
    this.#version = version;
    this.#server = new Server(url ?? process.env.TIERQ_URL ?? 'http://127.0.0.1:8080', key);
    if (!Array.isArray(queues) || queues.length === 0) throw new TypeError('queues must name one queue or more');
    if (!(concurrency >= 1 && concurrency <= 1000)) throw new RangeError('concurrency must be 1 to 1000');
    if (lease !== undefined && !(lease >= 5 && lease <= 3600)) throw new RangeError('lease must be 5 to 3600 seconds');
    if (!/^[A-Za-z0-9._-]{1,64}$/.test(name)) throw new TypeError('the name must be 1 to 64 of A-Z a-z 0-9 . _ -');
    this.name = name;
    this.log = options.log ?? console;
    this.#queues = queues;
    this.#tiers = tiers;
    this.#lease = lease;
    this.#drain = drain;
    this.#places = this.#free = concurrency;
  }

  handle(type, fn) {
    if (this.#handlers.has(type)) throw new TypeError(`the type ${type} has two handlers`);
    this.#handlers.set(type, fn);
    return this;
  }

  stop() {
    this.#stop.abort();
    this.#freed();
  }

  async run({ signals = true } = {}) {
    if (this.#handlers.size === 0) throw new Error('the worker has no handler');
    if (this.#begun) throw new Error('the worker was run before');
    this.#begun = true;
    const stop = () => this.stop();
    if (signals) for (const s of ['SIGTERM', 'SIGINT']) process.on(s, stop);
    const loops = [this.#beats(), this.#reports.run(this.#over.signal), this.#logs.run(this.#over.signal)];
    try {
      await this.#claims();
    } finally {
      await this.#end();
      await Promise.all(loops);
      if (signals) for (const s of ['SIGTERM', 'SIGINT']) process.off(s, stop);
    }
  }

  async #end() {
    this.stop();
    this.hungry = false;
    this.#reports.wake();
    const running = () => this.#places - this.#free;
    await until(() => running() === 0, this.#drain);
    for (const job of this.#held.values()) if (!job.inner.done) job.end(new Stopping('worker stopping'));
    await until(() => running() === 0, GRACE);
    await until(() => this.#held.size === running(), GRACE);
    if (running() > 0) this.log.warn(`handlers do not stop; their jobs go to other workers: ${running()}`);
    this.#over.abort();
    this.#reports.wake();
    this.#logs.within(0);
    this.#beat();
  }

  // Makes a call of a worker.
  async call(verb, options) {
    const answer = await this.#server.call(verb, options);
    if (answer.state === 'terminate') this.stop();
    return answer;
  }

  // Forgets a job.
  release(job) {
    this.#held.delete(job.inner.lease);
  }

  async #claims() {
    const start = randomBytes(4).toString('hex');
    for (let number = 1, taken = false; ; number++) {
      while (this.#free === 0 && !this.#stop.signal.aborted) {
        this.hungry = true;
        await new Promise((resolve) => (this.#freed = resolve));
      }
      if (this.#stop.signal.aborted) return;
      const answer = await this.#claim({
        worker: this.name, queues: this.#queues, tiers: this.#tiers, max: Math.min(this.#free, MOST_CLAIM),
        wait: CLAIM_WAIT, leaseSeconds: this.#lease, claimId: `${start}-${number}`, info: this.#info(),
      }, taken);
      if (!answer) continue;
      taken = true;
      const wait = answer.retryAfterMs || (answer.state === 'quiet' ? 1000 : 0);
      this.hungry = wait === 0 && !this.#stop.signal.aborted;
      for (const claimed of answer.jobs) this.#start(claimed, answer.sent);
      this.#beat();
      if (wait) await rest(Math.min(wait, 60_000), this.#stop.signal);
    }
  }

  // What the worker says of itself, for operators.
  #info() {
    const host = hostname().slice(0, 64).replace(/[^ -~]/g, '-') || undefined;
    const running = this.#places - this.#free;
    return { host, pid: process.pid, version: this.#version, language: 'node', slots: this.#places, running };
  }

  // Makes a claim, with the reports that wait, and repeats it; undefined if it was given up.
  async #claim(body, taken) {
    const first = performance.now();
    let carried = this.#reports.take(true);
    this.hungry = false;
    for (let failures = 1; ; failures++) {
      const sent = performance.now();
      let text = JSON.stringify(body);
      if (carried.length) text = `${text.slice(0, -1)},"reports":[${carried.map((r) => r.text).join(',')}]}`;
      this.#reports.wake();
      try {
        const timeout = 1000 * CLAIM_WAIT + CALL_TIME;
        const answer = await this.call('claim', { body: text, timeout, signal: this.#stop.signal });
        this.#reports.acknowledge(carried, answer.reported ?? []);
        return { ...answer, sent };
      } catch (e) {
        if (!(e instanceof TierqError)) throw e;
        body.repeat = failures; // how often the claim was sent before
        // The reports go alone from here: if they are why the claim is refused, the next one is not.
        const withReports = carried.length > 0;
        this.#reports.putBack(carried);
        carried = [];
        if (this.#stop.signal.aborted) return this.#giveBack(body);
        const final = !e.passing && e.status < 500;
        if (final && !taken && !withReports && e.status !== 404) throw e;
        if (!final || !withReports) {
          this.log.warn('a claim failed, and is made again:', e.message);
          await rest(pause(failures, e), this.#stop.signal);
        }
        if (performance.now() - first > CLAIM_LIFE) return undefined; // the next claim has another id
      }
    }
  }

  // Repeats a claim whose answer the worker did not wait for, and releases the jobs that the claim has got.
  async #giveBack(body) {
    try {
      const again = JSON.stringify({ ...body, max: 1, wait: 0 });
      const answer = await this.call('claim', { body: again, timeout: CALL_TIME });
      for (const claimed of answer.jobs) {
        const job = new Job(claimed, performance.now(), this.#beat);
        job.finish();
        this.#held.set(claimed.lease, job);
        this.#reports.add(job, JSON.stringify({ lease: claimed.lease, released: {} }));
      }
    } catch (e) {
      if (!(e instanceof TierqError)) throw e;
      this.log.warn('the last claim was not answered; if it got jobs, their leases have to end:', e.message);
    }
  }

  // Makes a call about a job, which may be repeated, until it is answered or the handler should end.
  async #ask(job, path, body) {
    const { signal } = job;
    for (let failures = 1; ; failures++) {
      signal.throwIfAborted();
      try {
        return await this.#server.call(path, { path, body: JSON.stringify(body), timeout: CALL_TIME, signal });
      } catch (e) {
        signal.throwIfAborted();
        if (!(e instanceof TierqError) || !e.passing) throw e;
        await rest(pause(failures, e), signal);
      }
    }
  }

  // Takes a line of a handler, for the job's log and this worker's.
  #logged(job, level, text, attrs) {
    try {
      if (job.inner.told.logged(level.toUpperCase(), text, attrs)) this.#logs.within();
      this.log[level](`job ${job.id}: ${text}`, ...(attrs === undefined ? [] : [attrs]));
    } catch {
      // neither a value without a text nor the program's logger fails the handler
    }
  }

  // Waits until the server has what a handler has told, two seconds at most.
  async #tell(job) {
    const { inner } = job;
    inner.told.closed = true;
    if (inner.told.progress !== undefined) inner.beatAt = 0;
    else if (inner.told.waiting === 0) return;
    this.#logs.within(0);
    this.#beat();
    await inner.told.rest();
  }

  async #start(claimed, sent) {
    const calls = [() => this.#beat(), (...call) => this.#ask(...call), (...line) => this.#logged(...line)];
    const job = new Job(claimed, sent, ...calls);
    this.#held.set(claimed.lease, job);
    this.#free--;
    let result, error;
    try {
      const fn = this.#handlers.get(job.type);
      if (!fn) throw new UnknownType(`this worker has no handler for ${job.type}`);
      result = await fn(job.payload, job);
    } catch (e) {
      error = e ?? new Error(String(e));
    }
    const text = reportOf(job, result, error);
    await this.#tell(job);
    job.finish();
    this.#free++;
    if (job.inner.lost) {
      this.release(job);
    } else {
      this.#reports.add(job, text);
    }
    this.#freed();
  }

  // Sends heartbeats until the end: with the first job whose one is due go all that will be due soon.
  async #beats() {
    for (let failures = 0; !this.#over.signal.aborted; ) {
      const now = performance.now();
      const held = [...this.#held.values()].filter((j) => !j.inner.lost);
      const wait = Math.min(60_000, ...held.map((j) => j.inner.beatAt - now));
      if (wait > 0) {
        await new Promise((resolve) => {
          const timer = setTimeout(resolve, wait);
          this.#beat = () => (clearTimeout(timer), resolve());
        });
        continue;
      }
      const batch = [];
      let size = 0;
      for (const job of held) {
        if (job.inner.beatAt - now > job.every / 2) continue;
        if (batch.length === MOST_BEATS || size > MOST_BYTES) break;
        batch.push({ job, ...job.beat() });
        size += batch.at(-1).text.length;
      }
      const error = await this.#sendBeat(batch);
      failures = error ? failures + 1 : 0;
      if (error) {
        this.log.warn(`a heartbeat of ${batch.length} jobs was not answered:`, error.message);
        await rest(Math.min(pause(failures, error), 1000), this.#over.signal); // the leases do not wait for longer
      }
    }
  }

  async #sendBeat(batch) {
    const sent = performance.now();
    const body = `{"worker":${JSON.stringify(this.name)},"leases":[${batch.map((b) => b.text).join(',')}]}`;
    const timeout = Math.max(Math.min(CALL_TIME, ...batch.map((b) => b.job.every)), 1000);
    let error, pulses = [];
    try {
      pulses = (await this.call('heartbeat', { body, timeout })).leases;
    } catch (e) {
      if (!(e instanceof TierqError)) throw e;
      error = e;
    }
    batch.forEach(({ job, ...told }, i) => {
      if (i < pulses.length) job.hear(pulses[i], told, sent);
      else job.inner.beatAt = performance.now() + 100;
    });
    return error;
  }
}

async function until(done, ms) {
  for (const end = performance.now() + ms; !done() && performance.now() < end; ) await rest(10);
}

function ownName() {
  const host = hostname().slice(0, 40).replace(/[^A-Za-z0-9._-]/g, '-') || 'host';
  return `${host}-${process.pid}-${randomBytes(3).toString('hex')}`;
}
