// The thread in which a worker's Beater runs.
import { workerData } from 'node:worker_threads';
import { Beater } from './beater.js';

await new Beater(workerData).run();
