// What a handler does costs at most its own attempt, and is reported with a text that helps.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Later, Permanent, RetryAfter } from '../index.js';
import { jsonOf } from '../lib/text.js';
import { Fake, sleep } from './fake.js';
import { start } from './start.js';

const cyclic = [];
cyclic.push(cyclic);
const { proxy: revoked, revoke } = Proxy.revocable({}, {});
revoke();
const fails = () => {
  throw new Error('hostile');
};
const traps = new Proxy({}, { get: fails, getPrototypeOf: fails, ownKeys: fails, has: fails });
class Unreadable extends Error {
  constructor() {
    super();
    for (const name of ['stack', 'message', 'name']) Object.defineProperty(this, name, { get: fails });
  }
}
const huge = '\ud800ü'.repeat(1 << 20);

const failed = (message, more = {}) => ({ failed: { error: { message }, ...more } });
const permanent = (message) => failed(message, { permanent: true });
const later = (delaySeconds, reason) => ({ released: { delaySeconds, ...(reason && { reason }) } });

// What a handler throws, and its report; a RegExp is for the message of a failure that may be repeated.
const thrown = [
  [undefined, /undefined/], [null, /null/], [0, /0/], [false, /false/], ['', /empty/], [5n, /5/], ['text', /^text$/],
  [Symbol('sign'), /Symbol\(sign\)/], [Object.create(null), /null prototype/], [{ a: 1 }, /a: 1/], [() => 1, /1/],
  [revoked, /Proxy/], [traps, /threw/], [new Unreadable(), /threw/],
  [Object.assign(new Error('odd'), { stack: 7, name: Symbol('n') }), /^odd$/], [{ message: { a: 1 } }, /a: 1/],
  [new Error('cut \ud800'), /^cut \ufffd$/], [new Error(huge), /^(\ufffdü){819}$/],
  [new Permanent(), permanent('permanent: the handler gave no error')],
  [new Permanent(null), permanent('permanent: the handler gave no error')],
  [new Permanent(new TypeError('inner')), permanent('inner')],
  [new Permanent(Object.create(null)), permanent('[Object: null prototype] {}')],
  [new RetryAfter(3), failed('retry after: the handler gave no error', { retryAfterSeconds: 3 })],
  [new RetryAfter(-1, 'x'), failed('x', { retryAfterSeconds: 0 })],
  [new RetryAfter(Infinity, 'x'), failed('x', { retryAfterSeconds: 86_400 })],
  [new RetryAfter(1e9, 'x'), failed('x', { retryAfterSeconds: 86_400 })],
  ...[NaN, undefined, null, '5', 5n, traps].map((odd) => [new RetryAfter(odd, 'busy'), /^busy \(.*wants a number/]),
  [new Later(0.5), later(1)], [new Later(-Infinity), later(1)], [new Later(Infinity), later(31_536_000)],
  [new Later(60, 'cut \ud800'), later(60, 'cut \ufffd')], [new Later(60, 7), later(60, '7')],
  [new Later(60, huge), later(60, `${'\ufffdü'.repeat(102)}`)],
  ...[NaN, undefined, null, '5', 5n, Symbol('s'), traps].map((odd) =>
    [new Later(odd), /^later: wants a number of seconds, got /]),
];

// What a handler returns, and its result; without one it is no JSON.
const returned = [
  [undefined, null], [null, null], ['\ud800', '\ufffd'], [{ 'a\ud800': ['\udfff'] }, { 'a\ufffd': ['\ufffd'] }],
  [{ 'a\ud800': 1, 'a\ud801': 2 }, { 'a\ufffd': 2 }], ['😀 \\ud800', '😀 \\ud800'],
  [cyclic], [1n], [{ a: 1n }], [() => 1], [Symbol('s')], [{ toJSON: fails }],
];

function check(got, want, what) {
  if (!(want instanceof RegExp)) return assert.deepEqual(got, want, what);
  const { error, ...more } = got.failed;
  assert.match(error.message, want, what);
  assert.deepEqual(more, {}, what);
  for (const text of Object.values(error)) assert.ok(Buffer.byteLength(text) <= 4096 && text.isWellFormed(), what);
}

test('whatever a handler throws', async (t) => {
  const fake = await Fake.start(t);
  start(fake, { THROW: async (n) => {
    throw thrown[n][0];
  } }, { concurrency: 1 });
  thrown.forEach((_, n) => fake.add(String(n), 'THROW', n));
  for (const [n, [, want]] of thrown.entries()) check(await fake.reported(String(n)), want, `no. ${n}: ${want}`);
});

test('whatever a handler returns', async (t) => {
  const fake = await Fake.start(t);
  start(fake, { RETURN: (n) => returned[n][0] }, { concurrency: 1 });
  returned.forEach((_, n) => fake.add(String(n), 'RETURN', n));
  for (const [n, [, ...want]] of returned.entries()) {
    const got = await fake.reported(String(n));
    if (want.length) assert.deepEqual(got, { completed: { result: want[0] } }, `no. ${n}`);
    else assert.deepEqual([got.failed.permanent, got.failed.error.message.slice(0, 8)], [true, 'result: '], `no. ${n}`);
  }
});

test('JSON has no lone surrogates, and no name twice', () => {
  assert.equal(jsonOf({ 'a\ud800': 1, 'a\udfff': '😀\ud800', b: '\\ud800' }), '{"a�":"😀�","b":"\\\\ud800"}');
});

test('promises of a handler that are odd, beside one that never ends', async (t) => {
  const fake = await Fake.start(t);
  fake.leaseMs = 1000;
  for (const type of ['NEVER', 'THEN', 'GETTER', 'REVOKED', 'GOOD']) fake.add(type, type, {});
  start(fake, {
    NEVER: () => ({ then() {} }), THEN: () => ({ then: fails }), GOOD: () => 1,
    GETTER: () => traps, REVOKED: () => revoked,
  }, { concurrency: 2, drain: 0 });
  assert.match((await fake.reported('THEN')).failed.error.message, /hostile/);
  assert.match((await fake.reported('GETTER')).failed.error.message, /hostile/);
  assert.match((await fake.reported('REVOKED')).failed.error.message, /revoked/);
  assert.deepEqual(await fake.reported('GOOD'), { completed: { result: 1 } });
  await fake.until('heartbeats of the one that goes on', () => fake.counts.heartbeat > 3);
});

test('what a handler logs and tells never throws, and the lines are kept', async (t) => {
  const fake = await Fake.start(t);
  const bad = { log: { info: fails, warn: () => Promise.reject(new Error('late')), get error() { return fails(); } } };
  let level = {};
  for (let n = 0; n < 40; n++) level = { level };
  fake.add('j', 'TELL', {});
  start(fake, {
    TELL(_, job) {
      const { info, warn, error } = job.log;
      info(Symbol('s'));
      warn(Object.create(null), { good: 1, cyclic, level, 'a\ud800': '\ud800', get bad() { return fails(); } });
      error(traps, traps);
      info(undefined, 7);
      for (const odd of [NaN, -1, 1.5, Infinity, 1e300, Symbol('s'), 5n, 'x', null, traps, {}, revoked]) {
        job.progress(odd, odd, odd);
      }
      job.progress(2.9, 1e300, `\ud800${'ü'.repeat(200)}`);
    },
  }, bad);
  assert.deepEqual(await fake.reported('j'), { completed: { result: null } });
  const lines = fake.logs['lease-j'];
  assert.deepEqual(lines[0], [1, 'INFO', 'Symbol(s)']);
  assert.deepEqual(lines[1].slice(3), [{ good: 1, 'a\ufffd': '\ufffd' }]);
  assert.equal(lines.length, 4);
  const { done, total, note } = fake.tells['lease-j'].at(-1);
  assert.deepEqual([done, total, note], [2, Number.MAX_SAFE_INTEGER, `\ufffd${'ü'.repeat(98)}`]);
});

test('checkpoints that are none fail in their own handler, and nothing is sent', async (t) => {
  const fake = await Fake.start(t);
  let deep = 1;
  for (let n = 0; n < 33; n++) deep = [deep];
  const odd = [cyclic, NaN, { a: -Infinity }, 1n, undefined, () => 1, Symbol('s'), deep, 'x'.repeat(16 << 10),
    { toJSON: fails }, traps];
  fake.add('j', 'SAVE', {});
  start(fake, {
    async SAVE(_, job) {
      for (const value of odd) await assert.rejects(async () => job.save(value));
      await job.save({ 'a\ud800': '\udfff', text: '}]'.repeat(100) });
      await assert.rejects(async () => job.input(Object.create(null)), TypeError);
      await assert.rejects(async () => job.addToFlow({ a: 1n }), TypeError);
      return 'done';
    },
  });
  assert.deepEqual(await fake.reported('j'), { completed: { result: 'done' } });
  assert.deepEqual(fake.saved['lease-j'], [[1, { 'a\ufffd': '\ufffd', text: '}]'.repeat(100) }]]);
});

test('a handler that changes its job reports to its own lease', async (t) => {
  const fake = await Fake.start(t);
  fake.add('j', 'CHANGE', {});
  start(fake, {
    async CHANGE(_, job) {
      for (const name of Object.keys(job)) job[name] = undefined;
      await sleep(1);
      throw new Error('on purpose');
    },
  });
  assert.equal((await fake.reported('j')).failed.error.message, 'on purpose');
});
