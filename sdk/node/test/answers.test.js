// Whatever a server answers, the worker goes on, and runs each job once.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Fake, sleep } from './fake.js';
import { logger, start } from './start.js';

const cutOff = (a) => {
  a.writeHead(200, { 'Content-Length': 1000 });
  a.write('{"jobs":');
  setTimeout(() => a.destroy(), 5);
};
const redirect = (a) => a.writeHead(302, { Location: 'http://127.0.0.1:1/' }).end();
const failing = (status, headers) => (a) => a.writeHead(status, headers).end('<html>');
const refused = failing(400);
const odd = [
  {}, [], null, 7, '<html>', '{"jobs": [', cutOff, redirect, failing(204), failing(500), failing(429),
  failing(503, { 'Retry-After': 'soon' }), failing(503, { 'Retry-After': '-1' }),
  refused,
  { jobs: null, leases: null, reports: null, reported: null }, { jobs: {}, leases: {}, reports: {}, reported: 7 },
  { leases: [null, 7], reports: [null, 7], logs: [null, 7] },
  { leases: [{ word: 'PERHAPS', leaseForMs: 9 }], reports: [{ error: null }] },
  { leases: [{ word: 'OK', leaseForMs: 'x' }], reports: [{ error: { detail: { toString: 1 } } }] },
  { leases: [{ word: 'OK' }], reports: [] },
];

describe('answers', { concurrency: 3 }, () => {
  it('odd answers to claims', async (t) => {
    const fake = await Fake.start(t);
    const runs = {};
    start(fake, { ECHO: (id) => (runs[id] = (runs[id] ?? 0) + 1) });
    for (const [n, said] of odd.entries()) {
      await fake.until('a claim', () => (fake.counts.claim ?? 0) > 0);
      fake.add(String(n), 'ECHO', n);
      (fake.oddly.claim ??= []).push(said);
      assert.deepEqual(await fake.reported(String(n)), { completed: { result: 1 } }, `no. ${n}`);
    }
    assert.ok(fake.counts.claim < 5 * odd.length, JSON.stringify(fake.counts));
  });

  it('odd answers to reports and lines', async (t) => {
    const fake = await Fake.start(t);
    start(fake, { ECHO: (n, job) => (job.log.info('one'), n) });
    for (const [n, said] of odd.entries()) {
      fake.oddly = { log: [said], report: said === refused ? [{}] : [said] };
      fake.add(String(n), 'ECHO', n);
      assert.deepEqual(await fake.reported(String(n)), { completed: { result: n } }, `no. ${n}`);
      await fake.until('the odd answer', () => fake.oddly.report.length === 0);
    }
    fake.wrong = fake.wrong.filter((what) => !/^lines of/.test(what)); // the report waits for them two seconds only
  });

  it('odd answers to heartbeats', async (t) => {
    const fake = await Fake.start(t);
    let over;
    fake.add('j', 'WAIT', {});
    start(fake, { WAIT: async (_, job) => {
      for (const said of odd) {
        fake.oddly.heartbeat = [said];
        await job.save(1);
        assert.equal(fake.oddly.heartbeat.length, 0);
        over ??= job.signal.reason;
      }
      return 'kept';
    } });
    assert.deepEqual(await fake.reported('j'), { completed: { result: 'kept' } });
    assert.equal(over, undefined);
  });

  it('jobs that cannot be read, and good ones beside them', async (t) => {
    const fake = await Fake.start(t);
    fake.leaseMs = 2400;
    const started = [];
    const { lines, log } = logger();
    const bad = [
      { lease: undefined }, { lease: '' }, { lease: 7 }, { jobId: null }, { type: undefined }, { type: {} },
      ...['endsInMs', 'leaseForMs', 'heartbeatEveryMs'].flatMap((name) =>
        ['x', null, undefined, -1, 1e300, {}].map((value) => ({ [name]: value }))),
    ];
    for (const more of bad) fake.add('bad', 'ECHO', 'bad', more);
    for (const twice of ['a', 'a', 'b']) fake.add(twice, 'ECHO', twice);
    start(fake, { ECHO: (id) => (started.push(id), id) }, { concurrency: 100, log });
    await fake.reported('b');
    fake.add('a', 'ECHO', 'a'); // again, after its end
    fake.add('c', 'ECHO', 'c', { endsInMs: 2 ** 40, leaseForMs: 2 ** 40, heartbeatEveryMs: 2 ** 40 });
    assert.deepEqual(await fake.reported('c'), { completed: { result: 'c' } });
    assert.deepEqual(started, ['a', 'b', 'c']);
    assert.match(lines.join('\n'), /cannot be read are left to the ends of their leases: 25/);
    assert.ok(!fake.beaten.has('lease-bad'));
  });

  it('a job whose times are longer than a timer can be goes on', async (t) => {
    const fake = await Fake.start(t);
    const warnings = [];
    const warned = (w) => warnings.push(w.name);
    process.on('warning', warned);
    const long = { endsInMs: 2 ** 33, leaseForMs: 2 ** 33, heartbeatEveryMs: 2 ** 33 };
    fake.add('j', 'WAIT', {}, long);
    start(fake, { WAIT: async (_, { signal }) => (await sleep(300), signal.aborted) });
    assert.deepEqual([await fake.reported('j'), warnings], [{ completed: { result: false } }, []]);
    process.off('warning', warned);
  });

  it('claims that are answered at once with nothing are no tight loop', async (t) => {
    await Promise.all([0, -5, 'x', null, 1e-300].map(async (retryAfterMs) => {
      const fake = await Fake.start(t);
      fake.hasty = true;
      fake.oddly.claim = Array(1000).fill({ jobs: [], retryAfterMs });
      const begun = Date.now();
      start(fake, { ECHO: (n) => n });
      await fake.until('seven claims', () => fake.counts.claim >= 7);
      assert.ok(Date.now() - begun > 3000, JSON.stringify([retryAfterMs, Date.now() - begun]));
    }));
  });

  it('more jobs than were asked for take no more slots than there are', async (t) => {
    const fake = await Fake.start(t);
    let running = 0, most = 0;
    start(fake, { SLOW: async () => {
      most = Math.max(most, ++running);
      await sleep(20);
      running--;
    } }, { concurrency: 2 });
    await fake.until('a claim', () => fake.counts.claim > 0);
    const job = (id) => ({ jobId: id, type: 'SLOW', lease: `lease-${id}`, leaseForMs: 9e3, heartbeatEveryMs: 3e3,
      endsInMs: 9e3 });
    fake.oddly.claim = [{ jobs: ['a', 'b', 'c', 'd'].map(job) }];
    fake.add('start', 'SLOW', 0);
    await fake.until('two ends', () => fake.ends.size >= 2);
    fake.add('e', 'SLOW', 1);
    await fake.reported('e');
    assert.equal(most, 2);
  });

  it('an unknown queue ends the worker after ten seconds, and says what to type', async (t) => {
    const fake = await Fake.start(t);
    const { lines, log } = logger();
    fake.fault = (verb) => (verb === 'claim' ? 404 : 0);
    fake.refusal = { errorCode: 'UNKNOWN_QUEUE', detail: 'there is no queue pictures' };
    const begun = Date.now();
    const stop = start(fake, { RESIZE: (n) => n }, { log });
    fake.stops.length = 0;
    await assert.rejects(Promise.race([stop.ended, sleep(25_000)]), (e) => e.status === 404 && e.message.endsWith(
      'there is no queue pictures; declare the queue first: tierq queues declare pictures --type RESIZE'));
    assert.ok(Date.now() - begun >= 10_000 && lines.length > 3);
  });

  it('a queue that is declared meanwhile is claimed from', async (t) => {
    const fake = await Fake.start(t);
    fake.fault = (verb, n) => (verb === 'claim' && n < 4 ? 404 : 0);
    fake.refusal = { errorCode: 'UNKNOWN_QUEUE', detail: 'there is no queue pictures' };
    fake.add('j', 'ECHO', 1);
    start(fake, { ECHO: (n) => n });
    assert.deepEqual(await fake.reported('j'), { completed: { result: 1 } });
  });
});
