// Jobs that wait for each other.
import { randomUUID } from 'node:crypto';
import { ask, pages, until } from './caller.js';
import { FlowFailed } from './errors.js';

const pathOf = (flowId) => `/api/flows/${encodeURIComponent(flowId)}`;

export const withFlows = (Base) => class extends Base {
  submitFlow({ name, jobs }, { idempotencyKey } = {}) {
    const headers = { 'Idempotency-Key': idempotencyKey ?? randomUUID() };
    return this[ask]('submit flow', {
      path: '/api/flows', body: { name, jobs }, changes: true, headers, has: ({ flowId }) => flowId,
    });
  }

  flow(flowId, { signal } = {}) {
    return this[ask]('flow', { method: 'GET', path: pathOf(flowId), signal });
  }

  flows({ state, jobId } = {}) {
    return this[pages]('flows', '/api/flows', { state, jobId });
  }

  waitFlow(flowId, options = {}) {
    return until(`flow ${flowId}`, options, () => this.flow(flowId, options), (flow) => {
      if (flow.state !== 'COMPLETED' && flow.state !== 'RUNNING') throw new FlowFailed(flow);
      return flow.state === 'COMPLETED';
    });
  }

  async cancelFlow(flowId, { reason } = {}) {
    const body = reason === undefined ? undefined : { reason };
    return (await this[ask]('cancel flow', { path: `${pathOf(flowId)}/cancel`, body, changes: true })).state;
  }
};
