// The bench's worker in Node: it takes the jobs of one queue over HTTP and does nothing with them.
import { Worker } from '../../sdk/node/index.js';

const [url, queue, slots] = process.argv.slice(2);
const worker = new Worker(url, [queue], { concurrency: Number(slots) });
worker.handle('NOOP', async () => ({}));
await worker.run();
