// Batches, flows, schedules and logs, against a server of answers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BatchStuck, Client, OutcomeUnknown } from '../index.js';
import { Fake } from './fake.js';

async function started(t) {
  const fake = await Fake.start(t);
  return { fake, client: new Client(fake.url, { tries: 4, pause: () => 1 }) };
}

async function all(list) {
  const items = [];
  for await (const item of list) items.push(item);
  return items;
}

test('a batch is made once, filled and sealed', async (t) => {
  const { fake, client } = await started(t);
  fake.fault = (verb, n) => (verb === 'POST /api/batches' ? [0, 503, 0][n % 3] : 0);
  fake.flows = ['OPEN', 'RUNNING', 'FINISHED'].map((state) => ({ batchId: 'b', state }));
  const then = { type: 'MAIL', on: 'succeeded' };
  const { batchId } = await client.createBatch({ name: 'n', then });
  await client.submit('paid', 'RESIZE', {}, { batch: batchId });
  assert.equal((await client.sealBatch(batchId)).state, 'RUNNING');
  assert.equal((await client.batch(batchId)).state, 'FINISHED');
  assert.deepEqual(fake.bodies[0], ['POST /api/batches', { name: 'n', then }]);
  assert.equal(fake.bodies[1].batch, 'b');
  assert.equal(fake.bodies[2][0], 'POST /api/batches/b/seal');
});

test('a flow is submitted once, and followed to its end', async (t) => {
  const { fake, client } = await started(t);
  fake.fault = (verb, n) => (verb === 'POST /api/flows' ? [0, 503, 0][n % 3] : 0);
  fake.flows = [
    { flowId: 'f', jobs: { a: 'job-a' } }, { flowId: 'f', state: 'RUNNING' }, { flowId: 'f', state: 'STUCK' }];
  const jobs = { a: { type: 'RESIZE' }, b: { after: ['a'], onFailure: 'run' } };
  assert.deepEqual(await client.submitFlow({ name: 'n', jobs }), { flowId: 'f', jobs: { a: 'job-a' } });
  await assert.rejects(client.waitFlow('f'), (e) => e.flow.state === 'STUCK' && e.name === 'FlowFailed');
  fake.flows = [{ flowId: 'f', state: 'COMPLETED' }];
  assert.equal((await client.waitFlow('f')).state, 'COMPLETED');
  assert.equal(await client.cancelFlow('f', { reason: 'late' }), 'COMPLETED');
  assert.deepEqual(fake.bodies[0], ['POST /api/flows', { name: 'n', jobs }]);
  assert.deepEqual(fake.bodies.at(-1), ['POST /api/flows/f/cancel', { reason: 'late' }]);
  fake.flows = [{ items: [{ flowId: 'f' }], next: null }];
  assert.deepEqual(await all(client.flows({ state: 'STUCK', jobId: 'j' })), [{ flowId: 'f' }]);
  assert.equal(fake.queries.at(-1), 'state=STUCK&jobId=j');
});

test('a batch is waited for, cancelled and listed', async (t) => {
  const { fake, client } = await started(t);
  const running = { batchId: 'b', state: 'RUNNING', failed: 1, cancelled: 0, expired: 0 };
  fake.flows = [running, { ...running, state: 'FINISHED' }];
  assert.equal((await client.waitBatch('b')).state, 'FINISHED');
  fake.flows = [running];
  await assert.rejects(client.waitBatch('b', { timeout: 200 }), { name: 'TimeoutError' });
  await assert.rejects(client.waitBatch('b', { signal: AbortSignal.timeout(100) }), { name: 'TimeoutError' });
  fake.flows = [{ ...running, state: 'STUCK' }];
  await assert.rejects(client.waitBatch('b'), (e) => e instanceof BatchStuck && e.batch.failed === 1);
  fake.flows = [
    { batchId: 'b', cancelled: 2, asked: 1, next: 'c' }, { batchId: 'b', cancelled: 3, asked: 0, next: null }];
  assert.deepEqual(await client.cancelBatch('b'), { batchId: 'b', cancelled: 5, asked: 1 });
  fake.flows = [{ items: [1, 2], next: 'c' }, { items: [3], next: null }];
  assert.deepEqual(await all(client.batchMembers('b', { status: 'FAILED' })), [1, 2, 3]);
  assert.deepEqual(fake.queries.slice(-4), ['', 'cursor=c', 'status=FAILED', 'status=FAILED&cursor=c']);
});

test('a schedule is stored as it was read, run and asked', async (t) => {
  const { fake, client } = await started(t);
  const stored = { name: 'n ü', cron: '@daily', job: { type: 'REPORT' }, version: 3, next: [], runs: [] };
  fake.flows = [stored, stored, stored, stored, { jobId: 'job-1' }, { items: ['2026-05-01T00:00:00Z'] },
    { items: [stored] }];
  await client.putSchedule('n ü', await client.schedule('n ü'), { ifVersion: 3 });
  await client.putSchedule('n ü', stored, { ifVersion: 0 });
  await client.pauseSchedule('n ü', { reason: 'full' });
  assert.equal(await client.runSchedule('n ü', { idempotencyKey: 'k' }), 'job-1');
  const from = new Date('2026-05-01T00:00:00Z');
  assert.deepEqual(await client.nextOfSchedule('n ü', { n: 1, from }), ['2026-05-01T00:00:00Z']);
  assert.deepEqual(await client.schedules(), [stored]);
  const path = '/admin/schedules/n%20%C3%BC';
  const put = { cron: '@daily', job: { type: 'REPORT' } };
  assert.deepEqual(fake.bodies, [[`GET ${path}`, null], [`PUT ${path}`, put], [`PUT ${path}`, put],
    [`POST ${path}/pause`, { reason: 'full' }], [`POST ${path}/run`, null], [`GET ${path}/next`, null],
    ['GET /admin/schedules', null]]);
  assert.deepEqual(fake.ifs.filter(Boolean), ['"3"', '*']);
});

test('a change of a schedule that may be done is not repeated where a repeat is misunderstood', async (t) => {
  const { fake, client } = await started(t);
  fake.flows = [{ name: 'n' }];
  fake.fault = () => 1;
  await assert.rejects(client.deleteSchedule('n'), OutcomeUnknown);
  await assert.rejects(client.putSchedule('n', { job: {} }, { ifVersion: 1 }), OutcomeUnknown);
  const made = () => Object.values(fake.counts).reduce((sum, n) => sum + n);
  assert.equal(made(), 2);
  await assert.rejects(client.putSchedule('n', { job: {} }), OutcomeUnknown);
  assert.equal(made(), 6);
});

test('a follower of a log goes on behind the last line', async (t) => {
  const { fake, client } = await started(t);
  fake.logged = [{ items: [{ seq: 1 }, { seq: 2 }], after: 2, more: true, ended: false },
    { items: [{ seq: 5 }], after: 5, more: false, ended: false }, { items: [], after: 5, more: false, ended: true }];
  fake.fault = (verb, n) => [0, 0, 503, 0, 0][n];
  assert.deepEqual((await all(client.followLogs('job-0', { level: 'WARN' }))).map(({ seq }) => seq), [1, 2, 5]);
  assert.deepEqual(fake.bodies.map((url) => url.split('?')[1]), ['', 'after=2&', 'after=5&'].map((after) =>
    `${after}level=WARN&wait=25000ms`));
  await assert.rejects(all(client.followLogs('job-0', { signal: AbortSignal.abort() })), { name: 'AbortError' });
});

test('a follower of a log asks without a wait where the server has no room for one', async (t) => {
  const { fake, client } = await started(t);
  fake.fault = (verb, n) => (n <= 4 ? 503 : 0);
  assert.deepEqual((await all(client.followLogs('job-0'))).map(({ text }) => text), ['one']);
  assert.deepEqual(fake.bodies, ['/api/jobs/job-0/logs']);
});
