// BullMQ's side of the comparison. Reads one command per line from stdin ({"do":"enqueue","clients":16,"n":1000}) and answers each with one line on
// stdout: its figures in milliseconds, or {"error":"..."}. Times are this process' own clock. It ends at once when stdin does. Emptying Redis is the
// caller's.
'use strict';

const readline = require('node:readline');
const { Queue, Worker } = require('bullmq');

const [host, port, concurrency, result] = process.argv.slice(2);
const name = 'bench';
const connection = { host, port: Number(port) };
const now = () => performance.now();
const until = (at) => new Promise((done) => setTimeout(done, at - now()));

// job carries 100 bytes that survive being parsed: spaces between the fields would not.
function job(n) {
  const head = `{"n":${n},"pad":"`;
  return { n, pad: 'x'.repeat(Math.max(100 - head.length - 2, 0)) };
}

// growth is by how much what waits has grown.
async function growth(queue, send) {
  const before = await queue.getWaitingCount();
  const ms = await send();
  return { ms, queued: (await queue.getWaitingCount()) - before };
}

// timed is how long something took.
async function timed(act) {
  const began = now();
  await act();
  return now() - began;
}

async function withQueue(use) {
  const queue = new Queue(name, { connection });
  try {
    await queue.waitUntilReady();
    return await use(queue);
  } finally {
    await queue.close();
  }
}

// withWorker runs use beside a worker that is connected and has not begun; ended(n) resolves when n jobs in all are acknowledged as completed.
async function withWorker(handle, use) {
  const worker = new Worker(name, handle, { connection, concurrency: Number(concurrency), autorun: false });
  let completed = 0;
  let goal = Infinity;
  let reached, failed;
  const failure = new Promise((_, reject) => (failed = reject));
  failure.catch(() => {}); // seen where somebody waits for it
  worker.on('error', failed);
  worker.on('failed', (_, err) => failed(err));
  worker.on('completed', () => ++completed === goal && reached());
  const ended = (n) =>
    Promise.race([failure, new Promise((done) => ((goal = n), (reached = done), completed >= n && done()))]);
  try {
    await worker.waitUntilReady();
    return await use(worker, ended);
  } finally {
    await worker.close();
  }
}

// fill sends n jobs by addBulk: four calls of 250 at once are faster than one after the other.
async function fill(queue, n) {
  let sent = 0;
  const lane = async () => {
    while (sent < n) {
      const first = sent;
      sent = Math.min(first + 250, n);
      await queue.addBulk(Array.from({ length: sent - first }, (_, i) => ({ name: 'nothing', data: job(first + i) })));
    }
  };
  await Promise.all(Array.from({ length: 4 }, lane));
}

const commands = {
  version: async () => ({ version: require('bullmq/package.json').version, driver: require('ioredis/package.json').version, node: process.versions.node }),

  // Each client waits for its own answer before it sends again; all share one connection, which the driver fills with what waits.
  enqueue: ({ clients, n }) =>
    withQueue(async (queue) => {
      await Promise.all(Array.from({ length: clients }, () => queue.add('nothing', job(0)))); // loads the script
      let left = n;
      const client = async () => {
        while (left-- > 0) await queue.add('nothing', job(left));
      };
      return growth(queue, () => timed(() => Promise.all(Array.from({ length: clients }, client))));
    }),

  bulk: ({ n }) =>
    withQueue(async (queue) => {
      await queue.add('nothing', job(0)); // loads the script
      return growth(queue, () => timed(() => fill(queue, n)));
    }),

  // The jobs of a drain, and no other.
  fill: ({ n }) => withQueue((queue) => growth(queue, () => timed(() => fill(queue, n)))),

  // From the worker's start to the last job's acknowledged end; the results are kept.
  drain: ({ n }) =>
    withQueue(async (queue) => {
      let runs = 0;
      return withWorker(
        async () => { runs++; return result; },
        async (worker, ended) => {
          const ms = await timed(() => {
            worker.run();
            return ended(n);
          });
          return { ms, runs, completed: await queue.getCompletedCount() };
        },
      );
    }),

  // The first warm jobs are not counted. A handler that starts before the answer to its add is read counts as 0.
  pickup: ({ rate, n, warm }) =>
    withQueue(async (queue) => {
      const started = [];
      return withWorker(
        async ({ data }) => { started[data.n] ??= now(); },
        async (worker, ended) => {
          worker.run();
          const answered = [];
          const began = now();
          for (let i = 0; i < warm + n; i++) {
            await until(began + (i * 1000) / rate);
            await queue.add('nothing', job(i));
            answered[i] = now();
          }
          await ended(warm + n);
          if (Object.keys(started).length !== warm + n) throw new Error('not every job started');
          return { waits: answered.map((at, i) => Math.max(started[i] - at, 0)).slice(warm) };
        },
      );
    }),
};

const lines = readline.createInterface({ input: process.stdin });
lines.on('close', () => process.exit());
lines.on('line', async (line) => {
  let answer;
  try {
    const command = JSON.parse(line);
    answer = await commands[command.do](command);
  } catch (err) {
    answer = { error: String(err.stack || err) };
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
});
