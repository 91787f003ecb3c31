// Heartbeats: what they carry, what they are answered, and the thread that sends them.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { Later, LeaseLost, MaxTime, Permanent } from '../index.js';
import { Beats } from '../lib/beats.js';
import { Fake, sleep } from './fake.js';
import { ends, logger, silent, start } from './start.js';

const bad = { status: 400, errorCode: 'INVALID_REQUEST', detail: 'the checkpoint is refused' };
const library = new URL('../index.js', import.meta.url);

// Runs a program with a worker in a process of its own, and returns what it prints.
function run(t, fake, program) {
  const text = `import { Worker } from '${library}';
    const worker = new Worker('${fake.url}', ['pictures'], { drain: 500 });
    const block = (ms) => { for (const end = Date.now() + ms; Date.now() < end; ); };\n${program}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', text]);
  const said = { text: '', code: undefined };
  for (const from of [child.stdout, child.stderr]) from.on('data', (part) => (said.text += part));
  child.on('exit', (code) => (said.code = code));
  t.after(() => child.kill('SIGKILL'));
  return said;
}

test('a handler that blocks the event loop loses no lease, nor does a neighbour or a job that is claimed then',
  async (t) => {
    const fake = await Fake.start(t);
    fake.leaseMs = 3000;
    for (const type of ['BLOCK', 'WAIT', 'WAIT']) fake.add(`${type}${fake.jobs.length}`, type, {});
    const said = run(t, fake, `
      worker.handle('BLOCK', () => { block(8000); return 'blocked'; });
      worker.handle('WAIT', async (_, job) => {
        await new Promise((resolve) => setTimeout(resolve, 500));
        return job.signal.aborted;
      });
      await worker.run();`);
    await fake.until('the jobs run', () => fake.counts.claim > 1);
    await sleep(500);
    fake.add('late', 'WAIT', {});
    assert.deepEqual(await fake.reported('BLOCK0'), { completed: { result: 'blocked' } }, said.text);
    for (const id of ['WAIT1', 'WAIT2', 'late']) {
      assert.deepEqual(await fake.reported(id), { completed: { result: false } }, said.text);
    }
    assert.deepEqual([fake.lapsed, said.text], [[], '']);
  });

test('a worker that ends lets the process end, and an exit in a handler is no error of the thread', async (t) => {
  const fake = await Fake.start(t);
  for (const [code, program] of [[0, '() => worker.stop()'], [3, '() => process.exit(3)']]) {
    fake.add(String(code), 'END', {});
    const said = run(t, fake, `worker.handle('END', ${program}); await worker.run();`);
    await fake.until('the end', () => said.code !== undefined);
    assert.deepEqual(said, { text: '', code });
  }
});

test('a handler that waits for nothing that keeps a process alive goes on', async (t) => {
  const fake = await Fake.start(t);
  fake.leaseMs = 3000;
  fake.add('j', 'SAVE', {});
  run(t, fake, "worker.handle('SAVE', async (_, job) => { await job.save(1); return 1; }); await worker.run();");
  assert.deepEqual(await fake.reported('j'), { completed: { result: 1 } });
});

test('a thread that dies is started again, with what the server has not heard', async (t) => {
  const fake = await Fake.start(t);
  const worker = { name: 'w', log: silent, heard() {} };
  const beats = new Beats(worker, { url: fake.url }, Beats.program);
  fake.stops.push(() => beats.stop());
  await beats.start();
  fake.add('j', 'WAIT', {}, { heartbeatEveryMs: 200 });
  await beats.claim(JSON.stringify({ claimId: 'c', max: 1, wait: 1 }), 5000);
  const heard = [];
  beats.listen({ lease: 'lease-j', hear: (said) => heard.push(said) });
  await fake.until('heartbeats', () => heard.length > 1);
  for (let n = 1; n <= 3; n++) {
    await beats.thread.terminate();
    beats.save('lease-j', n, String(n));
    await fake.until('the checkpoint', () => fake.saved['lease-j']?.some(([number]) => number === n));
  }
  const claim = beats.claim(JSON.stringify({ claimId: 'd', max: 1, wait: 5 }), 9000);
  await fake.until('the claim', () => fake.counts.claim > 1);
  await beats.thread.terminate();
  await assert.rejects(claim, { name: 'Unavailable' });
});

test('without a thread the heartbeats are sent from the event loop', async (t) => {
  const fake = await Fake.start(t);
  const { lines, log } = logger();
  const beats = new Beats({ name: 'w', log, heard() {} }, { url: fake.url }, new URL('./none.js', import.meta.url));
  fake.stops.push(() => beats.stop());
  await beats.start();
  fake.add('j', 'WAIT', {}, { heartbeatEveryMs: 100 });
  const { answer } = await beats.claim(JSON.stringify({ claimId: 'c', max: 1, wait: 1 }), 5000);
  assert.equal(answer.jobs.length, 1);
  await fake.until('heartbeats', () => fake.counts.heartbeat > 2);
  assert.match(lines.at(-1), /no thread can be started/);
});

test('a worker of one thread', async (t) => {
  const fake = await Fake.start(t);
  const { lines, log } = logger();
  fake.leaseMs = 2000;
  fake.add('j', 'SAVE', {});
  const SAVE = async (_, job) => (await job.save(1), await sleep(2500), 1);
  const stop = start(fake, { SAVE }, { thread: false, log });
  assert.deepEqual(await fake.reported('j'), { completed: { result: 1 } });
  await stop();
  assert.deepEqual([lines, fake.lapsed], [[], []]);
});

test('times count from the sending of the call and what the server held it', async (t) => {
  const fake = await Fake.start(t);
  fake.leaseMs = 3000;
  const took = {};
  const timed = async (payload, job) => {
    const begun = Date.now();
    const cause = await ends(payload, job).catch((e) => e);
    took[job.id] = [cause.constructor, Date.now() - begun];
    throw cause;
  };
  start(fake, { WAIT: timed });
  await fake.until('a claim is held', () => fake.counts.claim === 1);
  await sleep(1500);
  fake.heldMs = 1500;
  fake.add('held', 'WAIT', {}, { endsInMs: 3000 });
  const { error } = (await fake.reported('held')).failed;
  assert.deepEqual([took.held[0], took.held[1] > 2000 && took.held[1] < 5000], [MaxTime, true], String(took.held));
  assert.match(error.message, /^the attempt ended after [\d.]+ s, its maximum processing time; raise it with /);
  assert.equal(error.type, 'MAX_TIME_EXCEEDED');

  fake.heldMs = undefined;
  fake.fault = (verb) => (verb === 'heartbeat' ? 503 : 0);
  fake.add('lapsed', 'WAIT', {});
  assert.deepEqual(await fake.reported('lapsed'), { released: {} });
  assert.deepEqual([took.lapsed[0], took.lapsed[1] < 5000], [LeaseLost, true], String(took.lapsed));

  fake.fault = () => 0;
  fake.heldMs = 1e9; // more than has passed since the call was sent
  fake.add('odd', 'WAIT', {}, { endsInMs: 500 });
  await fake.reported('odd');
  assert.ok(took.odd[1] < 5000, String(took.odd));
});

test('a handler that blocks until its time is over fails for that', async (t) => {
  const fake = await Fake.start(t);
  fake.add('j', 'BLOCK', {}, { endsInMs: 200 });
  start(fake, { BLOCK: () => {
    for (const end = Date.now() + 400; Date.now() < end; );
    throw new Error('slow');
  } });
  const { message, type } = (await fake.reported('j')).failed.error;
  assert.deepEqual([message, type], ['slow', 'MAX_TIME_EXCEEDED']);
});

test('a handler that asks for its signal after the end finds it aborted', async (t) => {
  const fake = await Fake.start(t);
  fake.add('j', 'LATE', {}, { endsInMs: 100 });
  const LATE = async (_, job) => (await sleep(300), [job.signal.aborted, job.signal.reason.name]);
  start(fake, { LATE });
  assert.deepEqual(await fake.reported('j'), { completed: { result: [true, 'MaxTime'] } });
});

test('what a refused checkpoint costs', async (t) => {
  const fake = await Fake.start(t);
  fake.leaseMs = 2500;
  let refused = 0;
  const handlers = {
    async SAVE(_, job) {
      job.progress(1, 2, 'half');
      const e = await job.save('bad').catch((error) => error);
      job.save('bad'); // and does not wait for it
      await sleep(500);
      await job.save('good');
      return [e.name, e.status, e.detail];
    },
    WAIT: async (_, job) => (await sleep(3000), await job.save('other'), job.signal.aborted),
  };
  const stop = start(fake, handlers);
  const done = { completed: { result: ['TierqError', 400, 'the checkpoint is refused'] } };

  // of an entry
  fake.pulse = ({ checkpoint }) => checkpoint === 'bad' && (refused++, { word: 'OK', leaseForMs: 2500, error: bad });
  fake.add('a', 'SAVE', {});
  fake.add('n', 'WAIT', {});
  assert.deepEqual(await fake.reported('a'), done);
  assert.deepEqual(fake.saved['lease-a'], [[3, 'good']]);
  assert.deepEqual(fake.tells['lease-a'].at(-1), { step: 1, done: 1, total: 2, note: 'half' });

  // of the whole call
  fake.pulse = () => undefined;
  fake.refusal = { ...bad };
  fake.fault = (verb, n, body) => (verb === 'heartbeat' && body.includes('"bad"') ? (refused++, 400) : 0);
  fake.add('b', 'SAVE', {});
  assert.deepEqual(await fake.reported('b'), done);
  assert.deepEqual(fake.saved['lease-b'], [[3, 'good']]);
  assert.deepEqual(fake.tells['lease-b'].at(-1), { step: 1, done: 1, total: 2, note: 'half' });
  assert.deepEqual(await fake.reported('n'), { completed: { result: false } });
  assert.deepEqual([fake.saved['lease-n'], fake.lapsed], [[[1, 'other']], []]);
  assert.ok(refused < 10, String(refused));
  await stop();
});

test('the log says why an attempt ended', async (t) => {
  const fake = await Fake.start(t);
  const { lines, log } = logger();
  const soon = { heartbeatEveryMs: 200 };
  fake.words = { 'lease-lost': 'LOST', 'lease-on': 'LOST' };
  fake.pulse = ({ lease }) => lease === 'lease-over' && { word: 'OK', leaseForMs: 30_000 };
  fake.add('lost', 'WAIT', {}, soon);
  fake.add('on', 'ON', {}, soon);
  fake.add('over', 'WAIT', {}, { ...soon, endsInMs: 300 });
  start(fake, { WAIT: ends, ON: () => sleep(3500) }, { log });
  fake.words['lease-over'] = 'LOST';
  const at = (id) => lines.filter((line) => line.startsWith(`job ${id}`)).join('\n');
  await fake.until('the lines', () => at('on').includes('slot') && at('over').includes('result'));
  assert.match(at('lost'), /^job lost \(WAIT\): the lease was lost, .*: the server has taken the job back$/);
  assert.match(at('over'), /^job over \(WAIT\): the attempt ended after [\d.]+ s, its maximum processing time; /);
  assert.match(at('over'), /the server did not take its result: the attempt had ended before: the attempt ended/);
  assert.match(at('on'), /\njob on: the handler still runs although its attempt has ended; its slot stays taken$/);
});

test('what stands in for a refused report keeps its meaning', async (t) => {
  const fake = await Fake.start(t);
  const why = 'the server refused the report: by the test';
  fake.fault = (verb, n, body) => (verb !== 'log' && body.includes('"odd"') ? 400 : 0);
  const throws = (error) => () => {
    throw error;
  };
  const retriable = (message) => ({ failed: { error: { message: `${message}; ${why}` } } });
  const cases = {
    RESULT: [() => 'odd', { failed: { error: { message: why }, permanent: true } }],
    FAILS: [throws(Object.assign(new Error('broken'), { name: 'odd' })), retriable('broken')],
    LATER: [throws(new Later(5, 'odd')), retriable('odd')],
    PERMANENT: [throws(new Permanent('odd')), { failed: { ...retriable('odd').failed, permanent: true } }],
  };
  start(fake, Object.fromEntries(Object.entries(cases).map(([type, [fn]]) => [type, fn])));
  for (const [type, [, want]] of Object.entries(cases)) {
    fake.add(type, type, {});
    assert.deepEqual(await fake.reported(type), want, type);
  }
});
