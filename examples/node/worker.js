import { Permanent, Worker } from 'tierq';

const worker = new Worker(process.env.TIERQ_URL, ['pictures'], { concurrency: 16 });
worker.handle('RESIZE', async ({ width }, job) => {
  if (typeof width !== 'number') throw new TypeError('the width is no number');
  if (width < 0) throw new Permanent('no picture has a negative width');
  return { width: 2 * width };
});
await worker.run(); // until SIGTERM, and then until the running jobs are done
