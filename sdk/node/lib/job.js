// The job that a handler runs.
import { isObject, notUnderstood } from './call.js';
import { depthOf, jsonOf } from './text.js';

const MOST_CHECKPOINT = 16 << 10; // bytes of JSON
const MOST_DEPTH = 32; // levels
const MEMBERS = ['type', 'queue', 'tier', 'payload', 'attempt', 'retryCount', 'maxRetries', 'generation'];

export class Job {
  #attempt;
  #calls;
  #log;

  // calls are what the worker does for a handler: ask, progress and log.
  constructor(claimed, attempt, calls) {
    this.id = claimed.jobId;
    for (const name of MEMBERS) this[name] = claimed[name];
    this.checkpoint = claimed.checkpoint ?? undefined;
    this.traceId = claimed.traceId ?? undefined;
    this.traceparent = claimed.traceparent ?? undefined;
    this.flowId = attempt.flowId;
    this.#attempt = attempt;
    this.#calls = calls;
  }

  get signal() {
    return this.#attempt.signal;
  }

  save(progress) {
    const text = jsonOf(progress, (name, value) => {
      if (typeof value !== 'number' || Number.isFinite(value)) return value;
      throw new TypeError(`a checkpoint is JSON: ${value} is no number of it`);
    });
    if (text === undefined) throw new TypeError('a checkpoint is JSON');
    if (Buffer.byteLength(text) > MOST_CHECKPOINT) {
      throw new RangeError(`a checkpoint has at most ${MOST_CHECKPOINT} bytes`);
    }
    if (depthOf(text) > MOST_DEPTH) throw new RangeError(`a checkpoint has at most ${MOST_DEPTH} levels`);
    return this.#attempt.save(text);
  }

  get log() {
    const line = (level) => (text, attrs) => this.#calls.log(this.#attempt, level, text, attrs);
    this.#log ??= { info: line('info'), warn: line('warn'), error: line('error') };
    return this.#log;
  }

  progress(done, total, note) {
    this.#calls.progress(this.#attempt, done, total, note);
  }

  async inputs() {
    return this.#inputs({});
  }

  async input(name) {
    return (await this.#inputs({ name: String(name) }))[0];
  }

  async addToFlow(jobs) {
    const { flowId, lease } = this.#attempt;
    if (!flowId) throw new TypeError('the job is of no flow');
    const path = `/api/flows/${encodeURIComponent(flowId)}/jobs`;
    const answer = await this.#calls.ask(this.#attempt, path, { lease, jobs });
    if (!isObject(answer?.jobs)) throw notUnderstood('add to flow');
    return answer.jobs;
  }

  async #inputs(asked) {
    const answer = await this.#calls.ask(this.#attempt, '/api/worker/inputs', { lease: this.#attempt.lease, ...asked });
    if (!Array.isArray(answer?.inputs)) throw notUnderstood('inputs');
    return answer.inputs;
  }
}
