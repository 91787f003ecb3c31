// Many submits in few calls.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client, OutcomeUnknown, TierqError, Unavailable } from '../index.js';
import { Fake } from './fake.js';

const BATCH = 'POST /paid/submit/batch';

async function started(t, decide) {
  const fake = await Fake.start(t);
  fake.entry = decide;
  return { fake, client: new Client(fake.url, { tries: 4, pause: () => 1 }) };
}

const jobsOf = (n, payload) => Array.from({ length: n }, (_, i) => ({ type: 'RESIZE', payload: payload ?? { i } }));

test('calls are bounded in bytes', async (t) => {
  const { fake, client } = await started(t);
  fake.mostBytes = 16 << 20;
  const results = await client.submitMany('paid', jobsOf(900, 'ü'.repeat(10_000)));
  assert.equal(new Set(results).size, 900);
  assert.ok(results.every((id) => typeof id === 'string'));
  assert.equal(fake.counts[BATCH], 2);
});

test('an entry that is too large is refused, and no other', async (t) => {
  const { fake, client } = await started(t);
  fake.mostBytes = 1 << 20; // of a proxy in between
  const jobs = jobsOf(20, 'x'.repeat(100_000));
  jobs[7].payload = 'x'.repeat(2 << 20);
  const results = await client.submitMany('paid', jobs);
  assert.deepEqual(results.map((r) => r.status ?? 'taken'), results.map((_, i) => (i === 7 ? 413 : 'taken')));
});

test('entries that are refused for now are sent again, with the same keys', async (t) => {
  const asked = new Map();
  const codes = [null, 'QUEUE_FULL', 'SYSTEM_UNHEALTHY', 'RATE_LIMITED', 'OUTCOME_UNKNOWN', 'INVALID_PAYLOAD'];
  const { fake, client } = await started(t, ({ payload: { i }, idempotencyKey }) => {
    asked.set(i, [...(asked.get(i) ?? []), idempotencyKey]);
    return codes[i] && (asked.get(i).length < 3 || i === 3) ? { errorCode: codes[i], detail: 'not now' } : undefined;
  });
  const results = await client.submitMany('paid', jobsOf(7));
  assert.deepEqual(results.map((r) => r.code ?? 'taken'),
    ['taken', 'taken', 'taken', 'RATE_LIMITED', 'taken', 'INVALID_PAYLOAD', 'taken']);
  assert.deepEqual([...asked.values()].map((keys) => [keys.length, new Set(keys).size]),
    [[1, 1], [3, 1], [3, 1], [4, 1], [3, 1], [1, 1], [1, 1]]);
  assert.deepEqual([results[3] instanceof Unavailable, results[3].passing, results[5].passing], [true, true, false]);
  assert.equal(fake.keys.size, 5);
});

test('an unknown outcome is told for its entries only', async (t) => {
  const { fake, client } = await started(t);
  fake.mostBytes = 16 << 20;
  fake.fault = (verb, n, body) => (body.includes('"lost"') ? 1 : 0);
  const jobs = [...jobsOf(1000), { type: 'RESIZE', payload: 'lost' }];
  const results = await client.submitMany('paid', jobs);
  assert.ok(results[1000] instanceof OutcomeUnknown);
  assert.ok(results.slice(0, 1000).every((id) => typeof id === 'string'));
  assert.equal(fake.keys.size, 1001);
});

test('an answer that is too short or no answer at all', async (t) => {
  const { fake, client } = await started(t);
  const odd = [{ apiResponseData: [] }, {}, [], null, { apiResponseData: [null, 7] }];
  fake.oddBatches = [...odd];
  const results = await new Client(fake.url, { tries: 6, pause: () => 1 }).submitMany('paid', jobsOf(2));
  assert.deepEqual([results.map((r) => typeof r), fake.keys.size], [['string', 'string'], 2]);
  fake.oddBatches = [...odd];
  assert.ok((await client.submitMany('paid', jobsOf(2))).every((e) => e instanceof OutcomeUnknown));
});

test('nothing is sent if a submit is no JSON or has an unknown option', async (t) => {
  const { fake, client } = await started(t);
  await assert.rejects(client.submitMany('paid', [...jobsOf(1000), { type: 'RESIZE', payload: 1n }]), TypeError);
  await assert.rejects(client.submitMany('paid', [...jobsOf(1000), { type: 'RESIZE', delay: 3 }]), TypeError);
  assert.deepEqual(fake.counts, {});
});

test('a call with more entries than the rate has left is made in parts', async (t) => {
  const { fake, client } = await started(t);
  fake.fault = (verb, n, body) => (JSON.parse(body).length > 300 ? 429 : 0);
  const results = await client.submitMany('paid', jobsOf(1000));
  assert.equal(new Set(results).size, 1000);
  assert.ok(results.every((r) => !(r instanceof TierqError)));
});

test('answers that are not understood count as lost', async (t) => {
  const { fake, client } = await started(t);
  fake.odd = [null, {}, [], { apiResponseData: {} }];
  await assert.rejects(client.submit('paid', 'RESIZE'), OutcomeUnknown);
  fake.odd = [{}, { apiResponseData: 7 }];
  assert.equal(await client.submit('paid', 'RESIZE', {}, { idempotencyKey: 'k' }), fake.keys.get('k'));
  fake.odd = Array(4).fill({});
  await assert.rejects(client.poll('job-0'), Unavailable);
  fake.polls = [{ currentJobStatus: 'PENDING' }];
  assert.equal((await new Client(fake.url, { timeout: Infinity }).poll('job-0')).status, 'PENDING');
});
