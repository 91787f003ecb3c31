export * from './types/batches.js';
export * from './types/client.js';
export * from './types/errors.js';
export * from './types/flows.js';
export * from './types/jobs.js';
export * from './types/logs.js';
export * from './types/schedules.js';
export * from './types/worker.js';
