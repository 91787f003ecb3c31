// Submits jobs to a server, and follows them.
import { randomUUID } from 'node:crypto';
import { withBatches } from './batches.js';
import { rest } from './call.js';
import { Caller, ask, once, queryOf, retries } from './caller.js';
import { JobCancelled, JobExpired, JobFailed } from './errors.js';
import { withFlows } from './flows.js';
import { submitAll } from './many.js';
import { withSchedules } from './schedules.js';

const HOLD = 25_000; // ms that the server is asked to hold a poll's answer
const OPTIONS = ['queue', 'delaySeconds', 'runAt', 'expiresIn', 'expiresAt', 'maxRetries', 'maxProcessingSeconds',
  'callbackUrl', 'unique', 'key', 'batch'];

export class Client extends withSchedules(withFlows(withBatches(Caller))) {
  async submit(tier, type, payload, { idempotencyKey, ...options } = {}) {
    const answer = await this[ask]('submit', {
      path: `/${encodeURIComponent(tier.toLowerCase())}/submit`, body: jobOf(type, payload, options), changes: true,
      headers: { 'Idempotency-Key': idempotencyKey ?? randomUUID() }, has: (said) => said.apiResponseData.jobId,
    });
    return answer.apiResponseData.jobId;
  }

  async submitMany(tier, jobs) {
    const path = `/${encodeURIComponent(tier.toLowerCase())}/submit/batch`;
    const bodies = jobs.map(({ type, payload, idempotencyKey, ...options }) => ({
      ...jobOf(type, payload, options), idempotencyKey: idempotencyKey ?? undefined,
    }));
    return submitAll(bodies, (body) => this[once]('submit', { path, body }), this[retries]);
  }

  poll(jobId) {
    return this.#poll(jobId, 0);
  }

  logs(jobId, { after, attempt, level, limit, wait = 0 } = {}) {
    return this.#logs(jobId, { after, attempt, level, limit }, wait);
  }

  async *followLogs(jobId, { after = 0, attempt, level, signal } = {}) {
    for (let held = true; ; ) {
      signal?.throwIfAborted();
      const asked = performance.now();
      let page;
      try {
        page = await this.#logs(jobId, { after: after || undefined, attempt, level }, held ? HOLD : 0, signal);
        held = true;
      } catch (e) {
        if (!held || e.status !== 503) throw e;
        held = false; // the server may have no room for requests that wait
        continue;
      }
      yield* page.items;
      after = Math.max(after, page.after);
      if (page.ended && !page.more) return;
      // The server may not hold answers now.
      if (page.items.length === 0 && performance.now() - asked < 1000) await rest(1000, signal);
    }
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

  async cancel(jobId) {
    const path = `/api/jobs/${encodeURIComponent(jobId)}`;
    return (await this[ask]('cancel', { method: 'DELETE', path, changes: true })).status;
  }

  #logs(jobId, asked, wait, signal) {
    const query = queryOf({ ...asked, wait: wait ? `${wait}ms` : undefined });
    const path = `/api/jobs/${encodeURIComponent(jobId)}/logs${query}`;
    return this[ask]('logs', {
      method: 'GET', path, hold: wait, signal, has: ({ items, after }) => Array.isArray(items) && after >= 0,
    });
  }

  async #poll(jobId, hold, signal) {
    const wait = hold ? `&wait=${hold}ms` : '';
    const path = `/result/poll?jobId=${encodeURIComponent(jobId)}${wait}`;
    const { currentJobStatus: status, jobTier: tier, ...job } =
      (await this[ask]('poll', {
        method: 'GET', path, hold, signal, has: (said) => said.apiResponseData.currentJobStatus,
      })).apiResponseData;
    return { ...job, status, tier };
  }
}

function jobOf(type, payload, options) {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name)) throw new TypeError(`a submit has no option ${name}`);
  }
  return { type, payload, ...options };
}
