// Claims jobs for a worker, until it stops.
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { clock, isAmount, isRefusal, pause, rest } from './call.js';
import { TierqError } from './errors.js';
import { CALL_TIME } from './limits.js';

const CLAIM_WAIT = 20; // seconds that the server holds a claim while there is no job
const CLAIM_LIFE = 45_000; // ms for which a claim is repeated with its id; the server remembers it for a minute
const UNKNOWN_LIFE = 10_000; // ms for which the answer may be that no such queue is declared
const SOON = 1000; // ms: an empty answer that comes within these was not held
const MOST_CLAIM = 100;
const MOST_PAUSE = 60_000; // ms

export class Claims {
  #w;
  #asked; // the members of each claim
  #version;
  #start = randomBytes(4).toString('hex');
  #number = 0; // of the last claim
  #taken = false; // a claim was answered
  #unknownSince; // UNKNOWN_QUEUE has been the only answer since then

  constructor(worker, { queues, tiers, lease, version }) {
    this.#w = worker;
    this.#asked = { worker: worker.name, queues, tiers, leaseSeconds: lease };
    this.#version = version;
  }

  async run() {
    const { stopping } = this.#w;
    for (let empty = 0; ; ) {
      await this.#w.place();
      if (stopping.aborted) return;
      const asked = clock();
      const claimed = await this.#claim({
        ...this.#asked, max: Math.min(this.#w.free, MOST_CLAIM), wait: CLAIM_WAIT,
        claimId: `${this.#start}-${++this.#number}`, info: this.#info(),
      });
      if (!claimed) continue;
      const { answer } = claimed;
      const started = this.#w.take(claimed);
      empty = started > 0 || clock() - asked > SOON ? 0 : empty + 1;
      let wait = isAmount(answer.retryAfterMs) ? Math.min(answer.retryAfterMs, MOST_PAUSE) : 0;
      if (answer.state === 'quiet') wait ||= 1000;
      if (empty > 1) wait = Math.max(wait, pause(empty, { retryAfter: 0 }));
      this.#w.hungry = wait === 0 && !stopping.aborted;
      if (wait) await rest(wait, stopping);
    }
  }

  // What the worker says of itself, for operators.
  #info() {
    const host = hostname().slice(0, 64).replace(/[^ -~]/g, '-') || undefined;
    const { places: slots, running } = this.#w;
    return { host, pid: process.pid, version: this.#version, language: 'node', slots, running };
  }

  // Makes a claim, with the reports that wait, and repeats it; undefined if it was given up.
  async #claim(body) {
    const { reports, beats, stopping } = this.#w;
    const first = clock();
    let carried = reports.take(true);
    this.#w.hungry = false;
    for (let failures = 1; ; failures++) {
      let text = JSON.stringify(body);
      if (carried.length) text = `${text.slice(0, -1)},"reports":[${carried.map((r) => r.text).join(',')}]}`;
      reports.wake();
      try {
        const claimed = await beats.claim(text, 1000 * CLAIM_WAIT + CALL_TIME, stopping);
        this.#taken = true;
        this.#unknownSince = undefined;
        reports.acknowledge(carried, claimed.answer.reported);
        this.#w.heard(claimed.answer.state);
        return claimed;
      } catch (e) {
        if (!(e instanceof TierqError)) throw e;
        body.repeat = failures; // how often the claim was sent before
        // The reports go alone from here: if they are why the claim is refused, the next one is not.
        const withReports = carried.length > 0;
        reports.putBack(carried);
        carried = [];
        if (stopping.aborted) return this.#giveBack(body);
        await this.#failed(e, failures, withReports);
        if (clock() - first > CLAIM_LIFE) return undefined; // the next claim has another id
      }
    }
  }

  // Waits before a repeat; throws the error that ends the worker.
  async #failed(e, failures, withReports) {
    const { log, stopping } = this.#w;
    if (e.code === 'UNKNOWN_QUEUE') return this.#unknownQueue(e, failures);
    if (e.status !== 0) this.#unknownSince = undefined;
    const final = isRefusal(e);
    if (final && !this.#taken && !withReports && e.status !== 404) throw e;
    if (final && withReports) return undefined;
    log.warn('a claim failed, and is made again:', e.message);
    return rest(pause(failures, e), stopping);
  }

  // Another process may have declared the queue a moment ago.
  #unknownQueue(e, failures) {
    this.#unknownSince ??= clock();
    if (clock() - this.#unknownSince >= UNKNOWN_LIFE) {
      const { queues } = this.#asked;
      const queue = queues.find((name) => e.detail.includes(name)) ?? queues[0];
      const [type] = this.#w.handlers.keys();
      const say = `declare the queue first: tierq queues declare ${queue} --type ${type}`;
      throw new TierqError(`${e.message}; ${say}`, { ...e, detail: `${e.detail}; ${say}` });
    }
    this.#w.log.warn('a claim failed, and is made again:', e.message);
    return rest(Math.min(pause(failures, e), 1000), this.#w.stopping);
  }

  // Repeats a claim whose answer the worker did not wait for, and releases the jobs that the claim has got.
  async #giveBack(body) {
    const { beats, log } = this.#w;
    try {
      const { jobs, base } = await beats.claim(JSON.stringify({ ...body, max: 1, wait: 0 }), CALL_TIME);
      for (const claimed of jobs) this.#w.giveBack(claimed, base);
    } catch (e) {
      if (!(e instanceof TierqError)) throw e;
      log.warn('the last claim was not answered; if it got jobs, their leases have to end:', e.message);
    }
  }
}
