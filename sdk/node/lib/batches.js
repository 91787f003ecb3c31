// Groups of jobs with one job at the end.
import { randomUUID } from 'node:crypto';
import { ask, pages, queryOf, until } from './caller.js';
import { BatchStuck } from './errors.js';

const pathOf = (batchId) => `/api/batches/${encodeURIComponent(batchId)}`;

export const withBatches = (Base) => class extends Base {
  createBatch({ name, tier, then, callbackUrl, jobs, sealed }, { idempotencyKey } = {}) {
    const headers = { 'Idempotency-Key': idempotencyKey ?? randomUUID() };
    const body = { name, tier, then, callbackUrl, jobs, sealed };
    return this[ask]('create batch', {
      path: '/api/batches', body, changes: true, headers, has: ({ batchId }) => batchId,
    });
  }

  batch(batchId, { signal } = {}) {
    return this[ask]('batch', { method: 'GET', path: pathOf(batchId), signal });
  }

  batches() {
    return this[pages]('batches', '/api/batches', {});
  }

  batchMembers(batchId, { status } = {}) {
    return this[pages]('batch members', `${pathOf(batchId)}/members`, { status });
  }

  sealBatch(batchId) {
    return this[ask]('seal batch', { path: `${pathOf(batchId)}/seal`, changes: true });
  }

  waitBatch(batchId, options = {}) {
    return until(`batch ${batchId}`, options, () => this.batch(batchId, options), (batch) => {
      if (batch.state === 'STUCK') throw new BatchStuck(batch);
      return batch.state === 'FINISHED';
    });
  }

  async cancelBatch(batchId) {
    const done = { batchId, cancelled: 0, asked: 0 };
    for (let cursor; ; ) {
      const path = `${pathOf(batchId)}/cancel${queryOf({ cursor })}`;
      const { cancelled, asked, next } = await this[ask]('cancel batch', { path, changes: true });
      done.cancelled += cancelled;
      done.asked += asked;
      if (!next || next === cursor) return done;
      cursor = next;
    }
  }
};
