// The job that a handler runs.
import { Cancelled, LeaseLost, MaxTime } from './errors.js';
import { Told } from './tell.js';

const MAX_CHECKPOINT = 16 << 10; // bytes of JSON

export class Job {
  #stop = new AbortController();
  #clock;
  #until; // the lease is surely held until then
  #ends;
  #every; // ms between heartbeats
  #progress; // the JSON of a checkpoint that the server has not acknowledged
  #saves = 0;
  #stored = 0;
  #savers = [];
  #wake; // tells the worker that there is something for a heartbeat
  #ask; // makes a call about the job until it is answered
  #log;

  constructor(claimed, sent, wake, ask, logged = () => {}) {
    this.id = claimed.jobId;
    for (const name of ['type', 'queue', 'tier', 'payload', 'attempt', 'retryCount', 'maxRetries', 'generation']) {
      this[name] = claimed[name];
    }
    this.checkpoint = claimed.checkpoint ?? undefined;
    this.traceId = claimed.traceId ?? undefined;
    this.traceparent = claimed.traceparent ?? undefined;
    this.flowId = claimed.flowId ?? undefined;
    this.signal = this.#stop.signal;
    // What the worker needs; handlers do not see it in a log of the job.
    const inner = {
      lease: claimed.lease, done: false, lost: false, beatAt: sent + claimed.heartbeatEveryMs, told: new Told(),
    };
    Object.defineProperty(this, 'inner', { value: inner });
    this.#every = claimed.heartbeatEveryMs;
    this.#until = sent + claimed.leaseForMs;
    this.#ends = sent + claimed.endsInMs;
    this.#wake = wake;
    this.#ask = ask;
    const line = (level) => (text, attrs) => logged(this, level, text, attrs);
    this.#log = { info: line('info'), warn: line('warn'), error: line('error') };
    this.#tick();
  }

  get every() {
    return this.#every;
  }

  // Ends the handler when the lease or the time is over.
  #tick() {
    const now = performance.now();
    if (now >= this.#ends) return this.end(new MaxTime('maximum processing time exceeded'));
    if (now >= this.#until) return this.end(new LeaseLost('lease lost'));
    this.#clock = setTimeout(() => this.#tick(), Math.min(this.#until, this.#ends) - now + 1);
    this.#clock.unref();
  }

  end(cause) {
    clearTimeout(this.#clock);
    this.#stop.abort(cause);
  }

  finish() {
    clearTimeout(this.#clock);
    this.inner.done = true;
  }

  save(progress) {
    const text = JSON.stringify(progress);
    if (text === undefined) throw new TypeError('a checkpoint is JSON');
    if (Buffer.byteLength(text) > MAX_CHECKPOINT) {
      throw new RangeError(`a checkpoint has at most ${MAX_CHECKPOINT} bytes`);
    }
    this.#progress = text;
    const number = ++this.#saves;
    this.inner.beatAt = 0;
    this.#wake();
    return new Promise((resolve, reject) => {
      const fail = () => reject(this.signal.reason);
      if (this.signal.aborted) return fail();
      this.signal.addEventListener('abort', fail);
      this.#savers.push({ number, done: () => (this.signal.removeEventListener('abort', fail), resolve()) });
    });
  }

  get log() {
    return this.#log;
  }

  progress(done, total = 0, note = '') {
    try {
      this.inner.told.progressed(done, total, note);
    } catch {
      // a value without a text must not fail the handler
    }
  }

  async inputs() {
    return (await this.#ask(this, '/api/worker/inputs', { lease: this.inner.lease })).inputs;
  }

  async input(name) {
    return (await this.#ask(this, '/api/worker/inputs', { lease: this.inner.lease, name: String(name) })).inputs[0];
  }

  async addToFlow(jobs) {
    if (!this.flowId) throw new TypeError('the job is of no flow');
    return (await this.#ask(this, `/api/flows/${this.flowId}/jobs`, { lease: this.inner.lease, jobs })).jobs;
  }

  // The entry of a heartbeat, the number of its checkpoint, and its progress.
  beat() {
    const { lease, told: { progress } } = this.inner;
    const save = this.#progress === undefined ? 0 : this.#saves;
    const checkpoint = save ? `,"save":${save},"checkpoint":${this.#progress}` : '';
    const told = progress === undefined ? '' : `,"progress":${progress}`;
    return { text: `{"lease":${JSON.stringify(lease)}${checkpoint}${told}}`, save, progress };
  }

  // Takes the answer to a heartbeat.
  hear({ word, leaseForMs }, { save, progress }, sent) {
    if (word === 'LOST') {
      // After the end of the handler this is the rule: the report has arrived before the heartbeat.
      this.inner.beatAt = Infinity;
      if (!this.inner.done) {
        this.inner.lost = true;
        this.inner.told.forget();
        this.end(new LeaseLost('lease lost'));
      }
      return;
    }
    this.#until = sent + leaseForMs;
    this.#stored = Math.max(this.#stored, save);
    if (this.#stored === this.#saves) {
      this.#progress = undefined;
      this.inner.beatAt = sent + this.#every;
    } // else a handler has saved again meanwhile, and the next heartbeat is due
    const { told } = this.inner;
    if (told.progress === progress) told.progress = undefined;
    else if (told.closed && told.progress !== undefined) this.inner.beatAt = 0; // the report waits for the last one
    told.told();
    this.#savers = this.#savers.filter((s) => s.number > this.#stored || s.done());
    if (word === 'CANCEL') this.end(new Cancelled('job cancelled'));
  }
}
