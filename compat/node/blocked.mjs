// Runs one job that blocks the event loop for so many seconds as the first argument says.
import {createRequire} from 'node:module';

const faktory = createRequire(import.meta.url)('faktory-worker');
const seconds = Number(process.argv[2]);
let done;
const ran = new Promise((resolve) => { done = resolve; });

faktory.register('Block', () => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, seconds * 1000);
  done();
});
const client = await faktory.connect();
await Object.assign(client.job('Block', 1), {queue: 'blocking'}).push();
await client.close();
const worker = await faktory.work({concurrency: 2, queues: ['blocking'], timeout: 5000});
await ran;
await new Promise((resolve) => setTimeout(resolve, 1000)); // the ACK goes out
await worker.stop();
console.log('done');
process.exit(0);
