// What a Worker is made of: its slots, the attempts that it holds, and its loops.
import { Attempt } from './attempt.js';
import { Beats } from './beats.js';
import { CALL_TIME } from './limits.js';
import { Claims } from './claims.js';
import { Server, clock, isObject, notUnderstood, pause, rest } from './call.js';
import { Stopping, TierqError, UnknownType } from './errors.js';
import { Job } from './job.js';
import { Logs } from './logs.js';
import { reportOf } from './outcome.js';
import { Reports } from './report.js';
import { guarded, jsonOf, textOf } from './text.js';

const GRACE = 5000; // ms for handlers that were told to stop, and for the answers to the last reports
const MOST_SEEN = 5000; // leases of a set

export class Core {
  handlers = new Map();
  hungry = false; // the claimer makes a claim as soon as a place is free, and takes reports along
  held = new Map(); // attempts by lease, until the server has answered their report
  #server;
  #drain;
  #seen = new Set(); // the leases of which a job was started, the latest ones
  #seenBefore = new Set(); // the ones before these
  #calls = {
    ask: (...call) => this.#ask(...call), log: (...line) => this.#logged(...line),
    progress: (...told) => this.#progressed(...told),
  };
  #stop = new AbortController(); // nothing is claimed any more
  #over = new AbortController(); // the loops end
  #freed = () => {};

  constructor({ url, key, name, log, places, drain, thread, ...claims }) {
    this.name = name;
    this.log = guarded(log);
    this.places = this.free = places;
    this.#drain = drain;
    this.#server = new Server(url, key);
    this.stopping = this.#stop.signal;
    this.beats = new Beats(this, { url, key }, thread ? Beats.program : undefined);
    this.reports = new Reports(this);
    this.logs = new Logs(this, this.held);
    this.claims = new Claims(this, claims);
  }

  get running() {
    return this.places - this.free;
  }

  stop() {
    this.#stop.abort();
    this.#freed();
  }

  async run() {
    const alive = setInterval(() => {}, 60_000); // a handler may wait for what does not keep the process alive
    const over = this.#over.signal;
    const loops = [this.#loop('reports', this.reports, over), this.#loop('logs', this.logs, over)];
    try {
      await this.beats.start();
      await this.#loop('claims', this.claims, this.stopping);
    } finally {
      await this.#end();
      await Promise.all(loops);
      await this.beats.stop();
      clearInterval(alive);
    }
  }

  // Runs a loop until its signal is aborted, again after an error of its own. The error of a call ends it.
  async #loop(what, loop, signal) {
    for (;;) {
      try {
        return await loop.run(signal);
      } catch (e) {
        if (e instanceof TierqError) throw e;
        this.log.error(`${what}: an error of the library:`, e);
        await rest(1000, signal);
      }
    }
  }

  async #end() {
    this.stop();
    this.hungry = false;
    this.reports.wake();
    await until(() => this.running === 0, this.#drain);
    for (const attempt of this.held.values()) if (!attempt.done) attempt.end(new Stopping('worker stopping'));
    await until(() => this.running === 0, GRACE);
    await until(() => this.held.size === this.running, GRACE);
    if (this.running > 0) this.log.warn(`handlers do not stop; their jobs go to other workers: ${this.running}`);
    this.#over.abort();
    this.reports.wake();
    this.logs.within(0);
  }

  // Makes a call of a worker.
  async call(verb, options) {
    const answer = await this.#server.call(verb, options);
    if (!isObject(answer)) throw notUnderstood(verb);
    this.heard(answer.state);
    return answer;
  }

  // Takes what an operator asks of the worker.
  heard(state) {
    if (state === 'terminate') this.stop();
  }

  // Waits until a slot is free, or the worker stops.
  async place() {
    while (this.free === 0 && !this.stopping.aborted) {
      this.hungry = true;
      await new Promise((resolve) => (this.#freed = resolve));
    }
  }

  // Forgets an attempt, whose report was answered.
  release(attempt) {
    this.held.delete(attempt.lease);
    this.beats.drop(attempt.lease);
  }

  // Starts the jobs of a claim, and returns how many. What cannot be run is left to the end of its lease.
  take({ jobs, unreadable, base }) {
    if (unreadable > 0) this.log.error(`jobs that cannot be read are left to the ends of their leases: ${unreadable}`);
    let started = 0;
    for (const claimed of jobs) {
      if (this.held.has(claimed.lease)) continue;
      if (this.free === 0 || this.#wasSeen(claimed.lease)) {
        this.log.error(`job ${claimed.jobId} is left to the end of its lease: the worker did not ask for it`);
        this.beats.drop(claimed.lease);
        continue;
      }
      started++;
      this.#start(claimed, base);
    }
    return started;
  }

  // Releases a job that was claimed, and is not run.
  giveBack(claimed, base) {
    const attempt = new Attempt(this, claimed, base);
    attempt.finish();
    this.held.set(attempt.lease, attempt);
    this.reports.add(attempt, { text: JSON.stringify({ lease: attempt.lease, released: {} }), kind: 'released' });
  }

  #wasSeen(lease) {
    return this.#seen.has(lease) || this.#seenBefore.has(lease);
  }

  #start(claimed, base) {
    if (this.#seen.size === MOST_SEEN) {
      this.#seenBefore = this.#seen;
      this.#seen = new Set();
    }
    this.#seen.add(claimed.lease);
    const attempt = new Attempt(this, claimed, base);
    this.held.set(attempt.lease, attempt);
    this.beats.listen(attempt);
    attempt.watch();
    this.free--;
    this.#live(attempt, claimed);
  }

  // The whole life of an attempt. It never rejects.
  async #live(attempt, claimed) {
    let outcome, report;
    try {
      outcome = await this.#handle(attempt, claimed);
      attempt.returned();
      report = reportOf(attempt, outcome);
      await this.#tell(attempt);
    } catch (e) {
      this.log.error(`${attempt.title}: an error of the library:`, e);
      report ??= reportOf(attempt, { threw: true, error: `the library failed: ${textOf(e)}` });
    }
    attempt.finish();
    this.free++;
    if (attempt.lost) this.release(attempt);
    else this.reports.add(attempt, report);
    this.#freed();
  }

  // Runs the handler, and returns how it ended.
  async #handle(attempt, claimed) {
    try {
      const fn = this.handlers.get(attempt.type);
      if (!fn) throw new UnknownType(`this worker has no handler for ${attempt.type}`);
      const job = new Job(claimed, attempt, this.#calls);
      return { result: await fn(job.payload, job) };
    } catch (error) {
      return { threw: true, error };
    }
  }

  // Makes a call about a job, which may be repeated, until it is answered or the handler should end.
  async #ask({ signal }, path, body) {
    const text = jsonOf(body);
    for (let failures = 1; ; failures++) {
      signal.throwIfAborted();
      try {
        return await this.#server.call(path, { path, body: text, timeout: CALL_TIME, signal });
      } catch (e) {
        signal.throwIfAborted();
        if (!(e instanceof TierqError) || !e.passing) throw e;
        await rest(pause(failures, e), signal);
      }
    }
  }

  // Takes a line of a handler, for the job's log and this worker's.
  #logged(attempt, level, message, attrs) {
    const text = message === undefined || message === null ? '' : textOf(message);
    if (attempt.told.logged(level.toUpperCase(), text, attrs)) this.logs.within();
    this.log[level](`job ${attempt.id}: ${text}`, ...(attrs === undefined ? [] : [attrs]));
  }

  #progressed({ told, lease }, done, total, note) {
    told.progressed(done, total, note, (step, json) => this.beats.progress(lease, step, json, told.closed));
  }

  // Waits until the server has what a handler has told, two seconds at most.
  async #tell({ told, lease }) {
    told.closed = true;
    told.posted();
    if (!told.behind && told.waiting === 0) return;
    this.beats.hurry(lease);
    this.logs.within(0);
    await told.rest();
  }
}

async function until(done, ms) {
  for (const end = clock() + ms; !done() && clock() < end; ) await rest(10);
}
