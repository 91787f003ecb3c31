import type { Batch } from './batches.js';
import type { Flow } from './flows.js';
import type { Poll } from './jobs.js';

/** A call was refused, or not answered. A refusal means that nothing was done, except OutcomeUnknown. */
export class TierqError extends Error {
  /** 0 without an answer. */
  readonly status: number;
  /** The server's errorCode. */
  readonly code: string;
  readonly detail: string;
  readonly jobId?: string;
  readonly errors: { field: string; reason: string }[];
  /** Seconds. */
  readonly retryAfter: number;
  /** Whether the same call may succeed later. */
  get passing(): boolean;
}

/** The server did not answer, or cannot do this now. */
export class Unavailable extends TierqError {}

/** The call may or may not have been carried out. For a submit: submit again with the same idempotencyKey. */
export class OutcomeUnknown extends TierqError {}

/** The job ended FAILED. */
export class JobFailed extends TierqError {
  readonly job: Poll;
}

/** The job ended CANCELLED. */
export class JobCancelled extends TierqError {
  readonly job: Poll;
}

/** The job ended EXPIRED: no worker claimed it in time. */
export class JobExpired extends TierqError {
  readonly job: Poll;
}

/** The flow did not complete, or is STUCK. */
export class FlowFailed extends TierqError {
  readonly flow: Flow;
}

/** The job at the end of the batch waits for members that failed, expired or were cancelled. */
export class BatchStuck extends TierqError {
  readonly batch: Batch;
}

/** Thrown by a handler: the job becomes a dead letter at once, whatever retries are left. */
export class Permanent extends Error {}

/** Thrown by a handler: the attempt fails, which costs a retry, and the next one is at least seconds away. */
export class RetryAfter extends Error {
  constructor(seconds: number, message?: string);
  readonly seconds: number;
}

/** Thrown by a handler: the job goes back for seconds, at least one, without spending a retry. */
export class Later extends Error {
  constructor(seconds: number, reason?: string);
  readonly seconds: number;
}

/** Why a handler should end: the reason of its job's signal. */
export class Stopped extends Error {}

/** Another worker may hold the job. */
export class LeaseLost extends Stopped {}

/** A user cancelled the job. */
export class Cancelled extends Stopped {}

/** The maximum processing time is over. */
export class MaxTime extends Stopped {}

/** The worker stops: the job goes back to its queue, no retry spent. */
export class Stopping extends Stopped {}
