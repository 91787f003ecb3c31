// Submits jobs to a server, and follows them.
import { randomUUID } from 'node:crypto';
import { Server, pause, rest } from './call.js';
import { FlowFailed, JobCancelled, JobExpired, JobFailed, OutcomeUnknown, TierqError, Unavailable } from './errors.js';

const HOLD = 25_000; // ms that the server is asked to hold a poll's answer
const MOST_BATCH = 1000;
const OPTIONS = ['queue', 'delaySeconds', 'runAt', 'expiresIn', 'expiresAt', 'maxRetries', 'maxProcessingSeconds',
  'callbackUrl', 'unique', 'key', 'batch'];

export class Client {
  #server;
  #timeout;
  #tries;
  #pause;

  constructor(url, { key = process.env.TIERQ_KEY, timeout = 30_000, tries = 6, pause: wait = pause } = {}) {
    this.#server = new Server(url ?? process.env.TIERQ_URL ?? 'http://127.0.0.1:8080', key);
    this.#timeout = timeout;
    this.#tries = Math.max(tries, 1);
    this.#pause = wait;
  }

  async submit(tier, type, payload, { idempotencyKey, ...options } = {}) {
    const answer = await this.#call('submit', {
      path: `/${encodeURIComponent(tier.toLowerCase())}/submit`, body: jobOf(type, payload, options), changes: true,
      headers: { 'Idempotency-Key': idempotencyKey ?? randomUUID() },
    });
    return answer.apiResponseData.jobId;
  }

  async submitMany(tier, jobs) {
    const results = [];
    for (let first = 0; first < jobs.length; first += MOST_BATCH) {
      const body = jobs.slice(first, first + MOST_BATCH).map(({ type, payload, idempotencyKey, ...options }) => ({
        ...jobOf(type, payload, options), idempotencyKey: idempotencyKey ?? randomUUID(),
      }));
      try {
        const path = `/${encodeURIComponent(tier.toLowerCase())}/submit/batch`;
        const answer = await this.#call('submit', { path, body, changes: true });
        results.push(...answer.apiResponseData.map(entryOf));
      } catch (e) {
        if (!(e instanceof TierqError)) throw e;
        results.push(...body.map(() => e));
      }
    }
    return results;
  }

  poll(jobId) {
    return this.#poll(jobId, 0);
  }

  logs(jobId, { after, attempt, level, limit, wait = 0 } = {}) {
    const asked = Object.entries({ after, attempt, level, limit, wait: wait ? `${wait}ms` : undefined });
    const query = new URLSearchParams(asked.filter(([, value]) => value !== undefined));
    const path = `/api/jobs/${encodeURIComponent(jobId)}/logs?${query}`;
    return this.#call('logs', { method: 'GET', path, hold: wait });
  }

  async wait(jobId, { timeout = Infinity, signal } = {}) {
    for (const end = performance.now() + timeout; ; ) {
      signal?.throwIfAborted();
      const asked = performance.now();
      const left = end - asked;
      if (left <= 0) throw new DOMException(`job ${jobId} has not ended within ${timeout} ms`, 'TimeoutError');
      const job = await this.#poll(jobId, Math.ceil(Math.min(HOLD, left)), signal);
      if (job.status === 'FAILED') throw new JobFailed(job);
      if (job.status === 'CANCELLED') throw new JobCancelled(job);
      if (job.status === 'EXPIRED') throw new JobExpired(job);
      if (job.status === 'COMPLETED') return job;
      // The server may not hold answers now.
      if (performance.now() - asked < Math.min(left, 1000)) await rest(Math.min(250, left), signal);
    }
  }

  createBatch({ name, tier, then, callbackUrl }, { idempotencyKey } = {}) {
    const headers = { 'Idempotency-Key': idempotencyKey ?? randomUUID() };
    const body = { name, tier, then, callbackUrl };
    return this.#call('create batch', { path: '/api/batches', body, changes: true, headers });
  }

  batch(batchId) {
    return this.#call('batch', { method: 'GET', path: `/api/batches/${encodeURIComponent(batchId)}` });
  }

  sealBatch(batchId) {
    return this.#call('seal batch', { path: `/api/batches/${encodeURIComponent(batchId)}/seal`, changes: true });
  }

  async submitFlow({ name, jobs }, { idempotencyKey } = {}) {
    const headers = { 'Idempotency-Key': idempotencyKey ?? randomUUID() };
    return this.#call('submit flow', { path: '/api/flows', body: { name, jobs }, changes: true, headers });
  }

  flow(flowId) {
    return this.#call('flow', { method: 'GET', path: `/api/flows/${encodeURIComponent(flowId)}` });
  }

  async waitFlow(flowId, { timeout = Infinity, signal } = {}) {
    const end = performance.now() + timeout;
    for (let wait = 100; ; wait = Math.min(2 * wait, 2000)) {
      signal?.throwIfAborted();
      const flow = await this.flow(flowId);
      if (flow.state === 'COMPLETED') return flow;
      if (flow.state !== 'RUNNING') throw new FlowFailed(flow);
      const left = end - performance.now();
      if (left <= 0) throw new DOMException(`flow ${flowId} has not ended within ${timeout} ms`, 'TimeoutError');
      await rest(Math.min(wait, left), signal);
    }
  }

  async cancelFlow(flowId) {
    const path = `/api/flows/${encodeURIComponent(flowId)}/cancel`;
    return (await this.#call('cancel flow', { path, changes: true })).state;
  }

  async cancel(jobId) {
    const path = `/api/jobs/${encodeURIComponent(jobId)}`;
    return (await this.#call('cancel', { method: 'DELETE', path, changes: true })).status;
  }

  async #poll(jobId, hold, signal) {
    const wait = hold ? `&wait=${hold}ms` : '';
    const path = `/result/poll?jobId=${encodeURIComponent(jobId)}${wait}`;
    const { currentJobStatus: status, jobTier: tier, ...job } =
      (await this.#call('poll', { method: 'GET', path, hold, signal })).apiResponseData;
    return { ...job, status, tier };
  }

  async #call(verb, { body, changes = false, hold = 0, ...options }) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    for (let made = 1, unknown = false, jobId; ; made++) {
      try {
        return await this.#server.call(verb, { ...options, body: text, timeout: this.#timeout + hold });
      } catch (e) {
        if (!(e instanceof TierqError)) throw e;
        options.signal?.throwIfAborted();
        // What an earlier try may have done is not undone by the refusal of this one.
        unknown ||= changes && (e.status === 0 || (e.status >= 500 && e.status !== 501 && e.status !== 503));
        jobId = e.jobId ?? jobId;
        if (!e.passing || made === this.#tries) {
          const Kind = unknown ? OutcomeUnknown : e.passing ? Unavailable : TierqError;
          throw new Kind(e.message, { ...e, jobId });
        }
        await rest(this.#pause(made + 1, e), options.signal);
      }
    }
  }
}

function jobOf(type, payload, options) {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name)) throw new TypeError(`a submit has no option ${name}`);
  }
  return { type, payload, ...options };
}

function entryOf({ errorCode: code, detail = '', jobId, errors }) {
  if (!code) return jobId;
  const Kind = code === 'OUTCOME_UNKNOWN' ? OutcomeUnknown : TierqError;
  return new Kind(`submit: ${code}: ${detail}`, { code, detail, jobId, errors });
}
