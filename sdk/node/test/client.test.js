import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client, JobCancelled, JobExpired, JobFailed, OutcomeUnknown, TierqError, Unavailable } from '../index.js';
import { Fake } from './fake.js';

const quick = { tries: 4, pause: () => 1 };

async function started(t) {
  const fake = await Fake.start(t);
  return { fake, client: new Client(fake.url, quick) };
}

test('a submit that is repeated counts once', async (t) => {
  const { fake, client } = await started(t);
  fake.fault = (verb, n) => [0, 1, 503, 0][n % 4];
  const ids = new Set();
  for (let n = 0; n < 20; n++) ids.add(await client.submit('paid', 'RESIZE', { width: n }, { queue: 'pictures' }));
  assert.deepEqual([ids.size, fake.keys.size], [20, 20]);
});

test('a refused submit is not repeated', async (t) => {
  const { fake, client } = await started(t);
  fake.fault = () => 422;
  await assert.rejects(client.submit('paid', 'RESIZE'), (e) => e.status === 422 && e.code === 'REFUSED');
  assert.deepEqual(fake.counts, { 'POST /paid/submit': 1 });
  await assert.rejects(client.submit('paid', 'RESIZE', {}, { delay: 3 }), TypeError);
});

test('a unique key', async (t) => {
  const { fake, client } = await started(t);
  const unique = { key: 'shop 7', while: 60, on: 'refuse' };
  await client.submit('paid', 'RESIZE', {}, { unique });
  assert.deepEqual(fake.bodies, [{ type: 'RESIZE', payload: {}, unique }]);
  fake.fault = () => 409;
  fake.refusal = { errorCode: 'UNIQUE_TAKEN', jobId: 'job-7' };
  await assert.rejects(client.submit('paid', 'RESIZE', {}, { unique }),
    (e) => e instanceof TierqError && e.code === 'UNIQUE_TAKEN' && e.jobId === 'job-7');
});

test('the key of a line', async (t) => {
  const { fake, client } = await started(t);
  await client.submit('paid', 'RESIZE', {}, { key: 'acme' });
  await client.submitMany('paid', [{ type: 'RESIZE', key: 'globex', idempotencyKey: 'order-7' }]);
  assert.deepEqual(fake.bodies, [{ type: 'RESIZE', payload: {}, key: 'acme' },
    [{ type: 'RESIZE', key: 'globex', idempotencyKey: 'order-7' }]]);
});

test('a submit in doubt says so', async (t) => {
  const { fake, client } = await started(t);
  fake.fault = (verb, n) => [0, 1, 503, 503, 503][n];
  await assert.rejects(client.submit('paid', 'RESIZE', {}, { idempotencyKey: 'order-7' }), OutcomeUnknown);
  assert.deepEqual([...fake.keys.keys()], ['order-7']);
});

test('a server that is away', async (t) => {
  const { fake, client } = await started(t);
  fake.fault = () => 503;
  await assert.rejects(client.submit('paid', 'RESIZE'), Unavailable);
  assert.deepEqual(fake.counts, { 'POST /paid/submit': 4 });
  await assert.rejects(new Client('http://127.0.0.1:1', quick).poll('job-0'), Unavailable);
});

test('many submits', async (t) => {
  const { fake, client } = await started(t);
  const jobs = Array.from({ length: 1500 }, (_, n) => ({ type: n === 7 ? 'NONE' : 'RESIZE', payload: { n } }));
  const results = await client.submitMany('paid', jobs);
  assert.deepEqual([results.length, new Set(results).size], [1500, 1500]);
  assert.ok(results[7] instanceof TierqError && results[7].code === 'UNKNOWN_JOB_TYPE');
  assert.equal(fake.counts['POST /paid/submit/batch'], 2);
});

test('waiting for a job', async (t) => {
  const { fake, client } = await started(t);
  fake.polls = [{ currentJobStatus: 'PENDING' }, { currentJobStatus: 'COMPLETED', result: { width: 2 } }];
  assert.deepEqual((await client.wait('job-0')).result, { width: 2 });
  fake.polls = [{ currentJobStatus: 'FAILED', failureCause: 'HANDLER_ERROR', lastError: 'broken' }];
  await assert.rejects(client.wait('job-0'), (e) => e instanceof JobFailed && e.job.lastError === 'broken');
  fake.polls = [{ currentJobStatus: 'CANCELLED' }];
  await assert.rejects(client.wait('job-0'), JobCancelled);
  fake.polls = [{ currentJobStatus: 'EXPIRED' }];
  await assert.rejects(client.wait('job-0'), JobExpired);
  fake.polls = [{ currentJobStatus: 'PENDING' }];
  await assert.rejects(client.wait('job-0', { timeout: 300 }), { name: 'TimeoutError' });
  await assert.rejects(client.wait('job-0', { signal: AbortSignal.timeout(100) }), { name: 'TimeoutError' });
  assert.equal(await client.cancel('job-0'), 'CANCELLED');
});

test('the log of a job', async (t) => {
  const { fake, client } = await started(t);
  fake.fault = (verb, n) => [0, 503, 0][n % 3];
  assert.equal((await client.logs('job-0')).items[0].text, 'one');
  assert.equal((await client.logs('job-0', { after: 7, level: 'WARN', wait: 500 })).after, 1);
  assert.deepEqual(fake.bodies, ['/api/jobs/job-0/logs', '/api/jobs/job-0/logs?after=7&level=WARN&wait=500ms']);
});
