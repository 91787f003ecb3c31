// Client and worker of tierq, a job server with strict tiers. types has the types and the promises.
export { Client } from './lib/client.js';
export {
  BatchStuck, Cancelled, FlowFailed, JobCancelled, JobExpired, JobFailed, Later, LeaseLost, MaxTime, OutcomeUnknown,
  Permanent, RetryAfter, Stopped, Stopping, TierqError, Unavailable,
} from './lib/errors.js';
export { Worker } from './lib/worker.js';
