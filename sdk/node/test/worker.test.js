import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Later, Permanent, RetryAfter, TierqError, Worker } from '../index.js';
import { Fake, sleep } from './fake.js';
import { ends, silent as log, start } from './start.js';

const double = ({ width }) => ({ width: 2 * width });

test('jobs run, and each has its own result', async (t) => {
  const fake = await Fake.start(t);
  for (let n = 0; n < 300; n++) fake.add(String(n), 'RESIZE', { width: n });
  const stop = start(fake, { RESIZE: double }, { concurrency: 50 });
  for (let n = 0; n < 300; n++) {
    assert.deepEqual(await fake.reported(String(n)), { completed: { result: { width: 2 * n } } });
  }
  await stop();
  assert.ok(fake.counts.claim + (fake.counts.report ?? 0) < 200, JSON.stringify(fake.counts));
});

test('reports travel with claims', async (t) => {
  const fake = await Fake.start(t);
  for (let n = 0; n < 20; n++) fake.add(String(n), 'RESIZE', { width: n });
  start(fake, { RESIZE: double }, { concurrency: 1 });
  await fake.until('20 reports', () => fake.ends.size === 20);
  assert.deepEqual([fake.carried, fake.counts.report], [20, undefined]);
});

test('what a handler throws', async (t) => {
  const fake = await Fake.start(t);
  const throws = (error) => () => {
    throw error;
  };
  const cases = {
    DONE: [() => [1], { completed: { result: [1] } }],
    EMPTY: [() => undefined, { completed: { result: null } }],
    PERMANENT: [throws(new Permanent('broken')), { failed: { error: { message: 'broken' }, permanent: true } }],
    RETRY: [throws(new RetryAfter(1.5, 'busy')), { failed: { error: { message: 'busy' }, retryAfterSeconds: 2 } }],
    LATER: [throws(new Later(0.001)), { released: { delaySeconds: 1 } }],
    BECAUSE: [throws(new Later(60, 'closed')), { released: { delaySeconds: 60, reason: 'closed' } }],
    TEXT: [throws('a text'), { failed: { error: { message: 'a text' } } }],
  };
  const handlers = Object.fromEntries(Object.entries(cases).map(([type, [fn]]) => [type, fn]));
  start(fake, { ...handlers, FAILS: (p) => p.no.such, NO_JSON: () => 1n });
  for (const [type, [, want]] of Object.entries(cases)) {
    fake.add(type, type, {});
    assert.deepEqual(await fake.reported(type), want, type);
  }
  fake.add('fails', 'FAILS', {});
  const { error } = (await fake.reported('fails')).failed;
  assert.deepEqual([error.type, error.stack.includes('worker.test.js')], ['TypeError', true]);
  fake.add('big', 'NO_JSON', {});
  assert.equal((await fake.reported('big')).failed.permanent, true);
  fake.add('typo', 'RESISE', {});
  assert.equal((await fake.reported('typo')).failed.error.type, 'UNKNOWN_JOB_TYPE');
});

test('heartbeats, a cancel, a lost lease, and no answers', async (t) => {
  const fake = await Fake.start(t);
  fake.leaseMs = 2400;
  fake.words['lease-lost'] = 'LOST';
  for (const id of ['a', 'b', 'c', 'lost']) fake.add(id, 'WAIT', {});
  const causes = {};
  start(fake, {
    WAIT: (payload, job) => ends(payload, job).catch((e) => {
      causes[job.id] = e.name;
      throw e;
    }),
  });
  await fake.until('heartbeats', () => fake.counts.heartbeat > 4);
  fake.words['lease-a'] = 'CANCEL';
  assert.equal((await fake.reported('a')).failed.error.type, 'Cancelled');
  assert.deepEqual(causes, { lost: 'LeaseLost', a: 'Cancelled' });
  assert.deepEqual([fake.most >= 3, [...fake.ends.keys()]], [true, ['lease-a']]);
  fake.fault = (verb) => (verb === 'heartbeat' ? 503 : 0);
  assert.deepEqual(await fake.reported('b'), { released: {} });
  assert.deepEqual(await fake.reported('c'), { released: {} });
  assert.equal(causes.b, 'LeaseLost');
});

test('the maximum processing time', async (t) => {
  const fake = await Fake.start(t);
  fake.add('long', 'WAIT', {}, { endsInMs: 200 });
  start(fake, { WAIT: ends });
  assert.equal((await fake.reported('long')).failed.error.type, 'MAX_TIME_EXCEEDED');
});

test('checkpoints', async (t) => {
  const fake = await Fake.start(t);
  fake.fault = (verb, n) => (verb === 'heartbeat' && n === 1 ? 1 : 0);
  fake.add('j', 'PAGES', {}, { checkpoint: { page: 7 } });
  start(fake, {
    PAGES: async (payload, job) => {
      assert.throws(() => job.save('x'.repeat(16 << 10)), RangeError);
      await job.save({ page: 8 });
      await job.save({ page: 9 });
      return job.checkpoint;
    },
  });
  assert.deepEqual(await fake.reported('j'), { completed: { result: { page: 7 } } });
  assert.deepEqual(fake.saved['lease-j'], [[1, { page: 8 }], [1, { page: 8 }], [2, { page: 9 }]]);
});

test('answers are lost and calls are refused: each job runs once', async (t) => {
  const fake = await Fake.start(t);
  fake.fault = (verb, n) => [0, 1, 503, 0, 429, 0, 0][n % 7];
  for (let n = 0; n < 100; n++) fake.add(String(n), 'RESIZE', { width: n });
  let runs = 0;
  start(fake, { RESIZE: (p) => (runs++, double(p)) }, { concurrency: 20 });
  for (let n = 0; n < 100; n++) {
    assert.deepEqual(await fake.reported(String(n)), { completed: { result: { width: 2 * n } } });
  }
  assert.equal(runs, 100);
});

test('a refused report becomes a permanent failure, and holds up no other', async (t) => {
  const fake = await Fake.start(t);
  fake.fault = (verb, n, body) => (body.includes('too large') ? 413 : 0);
  for (const id of ['a', 'large', 'b']) fake.add(id, 'ECHO', id);
  start(fake, { ECHO: (p) => (p === 'large' ? 'too large' : p) });
  assert.deepEqual(await fake.reported('a'), { completed: { result: 'a' } });
  assert.deepEqual(await fake.reported('b'), { completed: { result: 'b' } });
  const message = 'the server refused the report: by the test';
  assert.deepEqual(await fake.reported('large'), { failed: { error: { message }, permanent: true } });
});

test('stop waits for handlers, then gives their jobs back', async (t) => {
  const fake = await Fake.start(t);
  let running = 0;
  fake.add('ends', 'SLOW', {});
  fake.add('stays', 'WAIT', {});
  const stop = start(fake, {
    SLOW: async () => (running++, await sleep(200), 1), WAIT: (p, job) => (running++, ends(p, job)),
  }, { drain: 500 });
  await fake.until('both jobs run', () => running === 2);
  await stop();
  assert.deepEqual(await fake.reported('ends'), { completed: { result: 1 } });
  assert.deepEqual(await fake.reported('stays'), { released: {} });
});

test('stop gives back what a claim got meanwhile', async (t) => {
  const fake = await Fake.start(t);
  const stop = start(fake, { WAIT: ends });
  await fake.until('a claim waits', () => fake.counts.claim === 1);
  fake.fault = (verb, n) => {
    if (verb === 'claim' && n === 2) fake.add('j', 'WAIT', {});
    return 0;
  };
  await stop();
  assert.deepEqual(await fake.reported('j'), { released: {} });
});

test('an operator ends the worker', async (t) => {
  const fake = await Fake.start(t);
  fake.state = 'terminate';
  const worker = new Worker(fake.url, ['pictures'], { log }).handle('WAIT', double);
  await worker.run();
  assert.equal(fake.counts.claim, 1);
  await assert.rejects(worker.run());
});

test('refusals', async (t) => {
  const fake = await Fake.start(t);
  fake.fault = () => 403;
  const worker = new Worker(fake.url, ['pictures'], { log }).handle('WAIT', double);
  await assert.rejects(worker.run(), (e) => e instanceof TierqError && e.message.includes('403 REFUSED: by the test'));
  for (const [url, queues, options] of [
    ['localhost:8080', ['q']], [fake.url, []], [fake.url, 'q'], [fake.url, ['q'], { concurrency: 0 }],
    [fake.url, ['q'], { lease: 1 }], [fake.url, ['q'], { name: 'a:b' }],
  ]) {
    assert.throws(() => new Worker(url, queues, options), undefined, `${url} ${queues}`);
  }
  await assert.rejects(new Worker(fake.url, ['q']).run());
});

test('a job of a flow reads its inputs, and adds jobs', async (t) => {
  const fake = await Fake.start(t);
  fake.fault = (verb, n) => (verb === 'inputs' && n === 1 ? 503 : 0);
  fake.flows = [
    { inputs: [{ name: 'a', result: { n: 1 } }, { name: 'b', result: null }] },
    { inputs: [{ name: 'b', result: 'big' }] },
    { jobs: { 'j/1': 'job-1' } },
  ];
  fake.add('1', 'JOIN', {}, { flowId: 'f' });
  start(fake, {
    async JOIN(_, job) {
      const all = await job.inputs();
      const one = await job.input('b');
      return [all.length, one.result, await job.addToFlow({ 'j/1': { type: 'PART' } })];
    },
  });
  assert.deepEqual(await fake.reported('1'), { completed: { result: [2, 'big', { 'j/1': 'job-1' }] } });
  assert.deepEqual(fake.bodies, [
    ['inputs', { lease: 'lease-1' }], ['inputs', { lease: 'lease-1', name: 'b' }],
    ['POST /api/flows/f/jobs', { lease: 'lease-1', jobs: { 'j/1': { type: 'PART' } } }],
  ]);
});
