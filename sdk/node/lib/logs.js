// Sends the lines of handlers to the server.
import { clock, isObject, isRefusal, pause, problemOf, rest } from './call.js';
import { TierqError } from './errors.js';
import { TELL_TIME } from './told.js';

const LOG_EVERY = 1000; // ms that a line waits for others
const MOST_LINES = 500; // in one call

// Sends the lines of all jobs that a worker holds, one call at a time.
export class Logs {
  #w;
  #held;
  #dueAt = Infinity;
  #alone = new Set(); // jobs whose lines go in a call of their own: a call with them was refused
  #wake = () => {};

  constructor(worker, held) {
    this.#w = worker;
    this.#held = held;
  }

  // Sends what waits, at the latest after some ms.
  within(ms = LOG_EVERY) {
    this.#dueAt = Math.min(this.#dueAt, clock() + ms);
    this.#wake();
  }

  async run(signal) {
    for (let failures = 0; !signal.aborted; ) {
      const wait = this.#dueAt - clock();
      if (wait > 0) {
        await new Promise((resolve) => {
          const timer = setTimeout(resolve, Math.min(wait, 60_000));
          this.#wake = () => (clearTimeout(timer), resolve());
        });
        continue;
      }
      this.#dueAt = Infinity;
      const batch = this.#batch();
      const error = batch.length > 0 && (await this.#send(batch));
      failures = error ? failures + 1 : 0;
      if (error) await rest(Math.min(pause(failures, error), LOG_EVERY), signal);
      for (const { job: { told } } of batch) {
        if (told.waiting > 0) this.within(error || told.closed || told.dropped ? 0 : LOG_EVERY);
      }
    }
  }

  // Returns the lines of one call. The jobs whose reports wait for their lines come first.
  #batch() {
    const jobs = [...this.#held.values()].filter((job) => job.told.waiting > 0);
    jobs.sort((a, b) => b.told.closed - a.told.closed);
    const batch = [];
    let lines = 0;
    for (const job of jobs) {
      const alone = this.#alone.has(job);
      if (lines >= MOST_LINES || (batch.length > 0 && alone)) {
        this.within(0);
        continue;
      }
      batch.push({ job, ...job.told.take(MOST_LINES - lines) });
      lines += batch.at(-1).lines.length;
      if (batch.at(-1).kept < job.told.waiting) this.within(0);
      if (alone) lines = MOST_LINES;
    }
    return batch;
  }

  // Makes a call; an error says that the same lines have to be sent again.
  async #send(batch) {
    const entries = batch.map(({ job, from, lines }) =>
      `{"lease":${JSON.stringify(job.lease)},"from":${from},"lines":[${lines.join(',')}]}`);
    const body = `{"worker":${JSON.stringify(this.#w.name)},"logs":[${entries.join(',')}]}`;
    try {
      const { logs } = await this.#w.call('log', { body, timeout: TELL_TIME });
      let again;
      batch.forEach((entry, i) => {
        const { told } = entry.job;
        const answer = Array.isArray(logs) && isObject(logs[i]) ? logs[i] : { error: { status: 503 } };
        const { status, errorCode, detail } = answer.error ? problemOf(answer.error) : {};
        if (status === 429 || status >= 500) {
          again = new TierqError(`log: ${status} ${errorCode}: ${detail}`, { status });
          return;
        }
        if (errorCode === 'LEASE_LOST') told.forget();
        else told.taken(entry);
        this.#alone.delete(entry.job);
      });
      return again;
    } catch (e) {
      if (!(e instanceof TierqError)) throw e;
      if (!isRefusal(e)) return e;
      this.#refused(batch, e);
      return undefined;
    }
  }

  #refused(batch, e) {
    if (batch.length > 1) {
      for (const { job } of batch) this.#alone.add(job);
      return this.within(0);
    }
    const [entry] = batch;
    this.#alone.delete(entry.job);
    this.#w.log.warn(`${entry.job.title}: the server refuses lines:`, e.message);
    if (entry.kept > 0) entry.job.told.refused(entry);
    else entry.job.told.taken(entry);
    return undefined;
  }
}
