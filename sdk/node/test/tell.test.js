import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fake, sleep } from './fake.js';
import { silent, start } from './start.js';

test('the last progress and all lines come before the report, over calls that fail', async (t) => {
  const fake = await Fake.start(t);
  fake.fault = (verb, n) => (verb === 'log' ? [0, 503, 1, 0][Math.min(n, 3)] : 0);
  fake.add('j', 'PAGES', {});
  fake.add('quiet', 'QUIET', {});
  const own = [];
  start(fake, {
    PAGES: async (_, job) => {
      job.progress(1, 9, 'begins');
      job.log.info('one', { n: 1, big: 2n, error: new TypeError('no page') });
      await fake.until('a second has passed, and the line was sent', () => fake.logs['lease-j']?.length === 1);
      job.log.warn(`${'ü'.repeat(4096)}`, { too: 'much' });
      job.log.error('cut \ud800 here', { a: '\ud800' });
      job.progress(9, 9, `${'x'.repeat(199)}ü`);
      return 1;
    },
    QUIET: () => 2,
  }, { log: { ...silent, warn: (...line) => own.push(line), info: (...line) => own.push(line) } });
  assert.deepEqual(await fake.reported('j'), { completed: { result: 1 } });
  assert.deepEqual(await fake.reported('quiet'), { completed: { result: 2 } });
  assert.deepEqual(fake.logs, { 'lease-j': [
    [1, 'INFO', 'one', { n: 1, big: '2', error: 'TypeError: no page' }], [2, 'WARN', 'ü'.repeat(2048)],
    [3, 'ERROR', 'cut \ufffd here', { a: '\ufffd' }],
  ] });
  assert.deepEqual(fake.tells['lease-j'].at(-1), { step: 2, done: 9, total: 9, note: 'x'.repeat(199) });
  assert.deepEqual(Object.keys(fake.tells), ['lease-j']);
  assert.deepEqual(own[0].slice(0, 1), ['job j: one']);
});

test('progress is sent within a second, by one heartbeat a second at most', async (t) => {
  const fake = await Fake.start(t);
  fake.add('j', 'PAGES', {});
  const begun = Date.now();
  start(fake, {
    PAGES: async (_, job) => {
      for (let n = 1; Date.now() < begun + 2500; await sleep(1)) job.progress(n++);
      job.progress(NaN, Infinity);
    },
  });
  await fake.until('the first progress', () => fake.tells['lease-j']);
  assert.ok(Date.now() < begun + 2000);
  await fake.reported('j');
  assert.ok(fake.counts.heartbeat >= 3 && fake.counts.heartbeat <= 5, JSON.stringify(fake.counts));
  const { done, total } = fake.tells['lease-j'].at(-1);
  assert.deepEqual([done, total], [0, Number.MAX_SAFE_INTEGER]);
});

test('what does not fit into memory is lost and counted', async (t) => {
  const fake = await Fake.start(t);
  fake.add('j', 'FLOOD', {});
  start(fake, {
    FLOOD: (_, job) => {
      for (let n = 0; n < 5000; n++) job.log.info(String(n));
    },
  });
  await fake.reported('j');
  const lines = fake.logs['lease-j'];
  assert.deepEqual([lines.length, lines[0], lines[999], lines[1000]],
    [1001, [1, 'INFO', '0'], [1000, 'INFO', '999'], [5000, 'lost']]);
});

test('a server that takes no lines holds up no end', async (t) => {
  const fake = await Fake.start(t);
  fake.fault = (verb) => (verb === 'log' || verb === 'heartbeat' ? 503 : 0);
  fake.add('j', 'SAYS', {});
  let later;
  start(fake, {
    SAYS: (_, job) => {
      job.progress(1, 2);
      job.log.info('one');
      later = job;
      return 1;
    },
  });
  assert.deepEqual(await fake.reported('j'), { completed: { result: 1 } });
  assert.ok(fake.counts.log > 1 && fake.counts.heartbeat > 0, JSON.stringify(fake.counts));
  later.log.info('after the end');
  later.progress(2, 2);
  for (let calls = 0; calls !== fake.counts.log;) { // a call may have been under way when the report was sent
    calls = fake.counts.log;
    await sleep(200);
  }
  fake.fault = () => 0;
  assert.deepEqual(fake.logs, {});
});

test('lines that the server refuses are lost ones, and those of other jobs arrive', async (t) => {
  const fake = await Fake.start(t);
  fake.fault = (verb, n, body) => (verb === 'log' && body.includes('deep one') ? 400 : 0);
  for (const id of ['a', 'deep', 'b']) fake.add(id, 'SAYS', id);
  let running = 0;
  start(fake, {
    SAYS: async (text, job) => {
      running++;
      await fake.until('all run', () => running === 3);
      job.log.info(text === 'deep' ? 'deep one' : text);
    },
  });
  for (const id of ['a', 'deep', 'b']) await fake.reported(id);
  const logs = { 'lease-a': [[1, 'INFO', 'a']], 'lease-b': [[1, 'INFO', 'b']], 'lease-deep': [[1, 'lost']] };
  assert.deepEqual(fake.logs, logs);
});

test('a lost lease ends the lines', async (t) => {
  const fake = await Fake.start(t);
  fake.words['lease-j'] = 'LOST';
  fake.add('j', 'SAYS', {});
  start(fake, {
    SAYS: async (_, job) => {
      job.log.info('one');
      await fake.until('a call', () => fake.counts.log === 1);
      await sleep(20);
      job.log.warn('two');
      job.progress(Object.create(null), 'none', Symbol('no text'));
      job.log.error(Object.create(null));
    },
  }, { log: { ...silent, warn: () => assert.fail('the logger fails') } });
  await fake.until('the report', () => fake.carried + (fake.counts.report ?? 0) === 1);
  assert.deepEqual([fake.logs, fake.tells, fake.counts.log], [{}, {}, 1]);
});

function deferred() {
  const d = {};
  d.promise = new Promise((resolve) => (d.resolve = resolve));
  return d;
}

test('lines that the server cannot store now, beside those of another job, are sent again', async (t) => {
  const fake = await Fake.start(t);
  fake.away = { 'lease-a': 2 };
  fake.add('a', 'LOG', {});
  fake.add('b', 'LOG', {});
  start(fake, {
    LOG: async (_, job) => {
      job.log.info('one');
      await fake.until('the lines', () => fake.logs['lease-a']?.length && fake.logs['lease-b']?.length);
    },
  });
  await fake.reported('a');
  await fake.reported('b');
  assert.deepEqual(fake.logs, { 'lease-a': [[1, 'INFO', 'one']], 'lease-b': [[1, 'INFO', 'one']] });
});
