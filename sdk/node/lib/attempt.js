// An attempt as the worker sees it: its lease, its times, and what the server has yet to be told.
import { MOST_TIMER, clock } from './call.js';
import { Cancelled, LeaseLost, MaxTime, TierqError } from './errors.js';
import { Told } from './told.js';

const LINGER = 2000; // ms after which a handler that goes on after the end of its attempt is told of in the log

export class Attempt {
  done = false; // the handler has ended, and its report is ready
  lost = false; // the server has said so while the handler ran
  told = new Told();
  #w;
  #stop; // the AbortController of a handler that asks for the signal
  #cause;
  #returned = false; // the handler has ended, and the last of what it has told may wait
  #clock;
  #began = clock();
  #until; // the lease is surely held until then
  #ends;
  #saves = 0;
  #savers = [];

  // Times of the claimed job count from base.
  constructor(worker, claimed, base) {
    this.#w = worker;
    this.id = claimed.jobId;
    this.type = claimed.type;
    this.lease = claimed.lease;
    this.flowId = claimed.flowId ?? undefined;
    this.title = `job ${this.id} (${this.type})`;
    this.#until = base + claimed.leaseForMs;
    this.#ends = base + claimed.endsInMs;
  }

  // Why the handler should end; undefined while it should not.
  get cause() {
    return this.#cause;
  }

  // Made when a handler asks for it: few do, and it is the dearest part of an attempt.
  get signal() {
    if (!this.#stop) {
      this.#stop = new AbortController();
      if (this.#cause) this.#stop.abort(this.#cause);
    }
    return this.#stop.signal;
  }

  // Ends the handler when the lease or the time is over.
  watch() {
    const now = this.look();
    if (this.#cause) return;
    this.#clock = setTimeout(() => this.watch(), Math.min(Math.min(this.#until, this.#ends) - now + 1, MOST_TIMER));
    this.#clock.unref();
  }

  // Ends the handler if the lease or the time is over, and returns the time. If the event loop was blocked, answers to
  // heartbeats wait.
  look() {
    let now = clock();
    if (this.#cause || this.#returned) return now;
    if (now >= this.#until) {
      this.#w.beats.drain();
      now = clock();
    }
    if (now >= this.#ends) this.#timeOver();
    else if (now >= this.#until) this.#leaseLost('no heartbeat was answered in time');
    return now;
  }

  // Ends the attempt, of which only the first cause counts.
  end(cause) {
    clearTimeout(this.#clock);
    if (this.#cause) return;
    this.#cause = cause;
    this.#stop?.abort(cause);
    for (const { reject } of this.#savers.splice(0)) reject(cause);
  }

  // The handler has ended. Time that passes from now on is not the handler's.
  returned() {
    this.look(); // the handler may have blocked the event loop until now
    clearTimeout(this.#clock);
    this.#returned = true;
  }

  // The handler has ended, and what it has told is on its way.
  finish() {
    clearTimeout(this.#clock);
    this.done = true;
    this.told.closed = true;
    for (const { reject } of this.#savers.splice(0)) reject(this.cause ?? new Error('the handler has ended'));
  }

  #timeOver() {
    const seconds = Math.round((clock() - this.#began) / 100) / 10;
    const text = `the attempt ended after ${seconds} s, its maximum processing time; raise it with ` +
      'maxProcessingSeconds of the queue or maxProcessingTimeMs of the tier';
    this.#w.log.warn(`${this.title}: ${text}`);
    this.end(new MaxTime(text));
  }

  #leaseLost(why) {
    const text = `the lease was lost, another worker may run the job: ${why}`;
    if (!this.done && !this.cause) this.#w.log.warn(`${this.title}: ${text}`);
    this.end(new LeaseLost(text));
  }

  // Hands over a checkpoint. The promise ends when the server has stored it, or a later one, or refuses it.
  save(checkpoint) {
    const saved = new Promise((resolve, reject) => {
      if (this.done && !this.cause) throw new Error('the handler has ended');
      this.#w.beats.save(this.lease, ++this.#saves, checkpoint);
      if (this.cause) throw this.cause;
      this.#savers.push({ number: this.#saves, resolve, reject });
    });
    saved.catch(() => {}); // a handler may not wait for it
    return saved;
  }

  // Takes the answer to a heartbeat: the lease's new end, and what became of the checkpoint and the progress in it.
  hear({ word, until, save, step, error }) {
    if (word === 'LOST') return this.#hearLost();
    if (until !== undefined) this.#until = Math.max(this.#until, until);
    if (save) this.#settle(save, error && new TierqError(error.message, error));
    if (step) this.told.progressTaken(step);
    if (word === 'CANCEL') this.end(new Cancelled('job cancelled'));
  }

  // Ends the saves up to a number.
  #settle(number, error) {
    const settled = this.#savers.filter((s) => s.number <= number);
    this.#savers = this.#savers.filter((s) => s.number > number);
    for (const { resolve, reject } of settled) error ? reject(error) : resolve();
  }

  // After the end of the handler this is the rule: the report has arrived before the heartbeat.
  #hearLost() {
    if (this.done) return;
    this.lost = true;
    this.told.forget();
    this.#leaseLost('the server has taken the job back');
    setTimeout(() => {
      if (this.done) return;
      this.#w.log.warn(`job ${this.id}: the handler still runs although its attempt has ended; its slot stays taken`);
    }, LINGER).unref();
  }
}
