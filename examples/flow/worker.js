import { Worker } from 'tierq';

const worker = new Worker(process.env.TIERQ_URL, ['pictures'], { concurrency: 4 });
worker.handle('RESIZE', async ({ file }) => ({ file: `${file}.small` }));
worker.handle('SCAN', async () => ({ clean: true }));
worker.handle('PUBLISH', async (payload, job) => {
  const scan = await job.input('scan'); // what a job that it waited for left behind
  if (!scan.result.clean) return { published: null };
  return { published: (await job.input('resize')).result.file };
});
await worker.run();
