// Jobs at times.
import { randomUUID } from 'node:crypto';
import { ask, queryOf } from './caller.js';

const pathOf = (name) => `/admin/schedules/${encodeURIComponent(name)}`;

export const withSchedules = (Base) => class extends Base {
  async schedules() {
    return (await this[ask]('schedules', { method: 'GET', path: '/admin/schedules' })).items;
  }

  schedule(name) {
    return this[ask]('schedule', { method: 'GET', path: pathOf(name) });
  }

  putSchedule(name, { cron, everySeconds, timezone, start, end, jitterSeconds, overlap, catchUp, job },
    { ifVersion } = {}) {
    const body = { cron, everySeconds, timezone, start, end, jitterSeconds, overlap, catchUp, job };
    const headers = ifOf(ifVersion);
    return this[ask]('put schedule', {
      method: 'PUT', path: pathOf(name), body, headers, changes: true, once: ifVersion !== undefined,
    });
  }

  async deleteSchedule(name, { ifVersion } = {}) {
    const headers = ifOf(ifVersion);
    await this[ask]('delete schedule', { method: 'DELETE', path: pathOf(name), headers, changes: true, once: true });
  }

  pauseSchedule(name, { reason } = {}) {
    return this[ask]('pause schedule', { path: `${pathOf(name)}/pause`, body: { reason }, changes: true });
  }

  resumeSchedule(name) {
    return this[ask]('resume schedule', { path: `${pathOf(name)}/resume`, changes: true });
  }

  async runSchedule(name, { idempotencyKey } = {}) {
    const headers = { 'Idempotency-Key': idempotencyKey ?? randomUUID() };
    const path = `${pathOf(name)}/run`;
    return (await this[ask]('run schedule', { path, headers, changes: true, has: ({ jobId }) => jobId })).jobId;
  }

  async nextOfSchedule(name, { n, from } = {}) {
    const asked = { n, from: from instanceof Date ? from.toISOString() : from };
    const path = `${pathOf(name)}/next${queryOf(asked)}`;
    return (await this[ask]('next of schedule', { method: 'GET', path })).items;
  }
};

// Returns the header with which the server changes only this version of a schedule; 0: there must be none.
function ifOf(version) {
  if (version === undefined) return {};
  return version === 0 ? { 'If-None-Match': '*' } : { 'If-Match': `"${version}"` };
}
