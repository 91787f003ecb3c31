import type { Batch } from './batches.js';
import type { Flow } from './flows.js';
import type { Poll } from './jobs.js';

/** A call was refused, or not answered. A refusal means that nothing was done, except OutcomeUnknown. */
export class TierqError extends Error {
  /** 0 without an answer. Of an entry of submitMany: as if that was submitted alone. */
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
export class Permanent extends Error {
  /** A text, or an error whose message is used. */
  constructor(error?: unknown);
}

/**
 * Thrown by a handler: the attempt fails, which costs a retry, and the next one is at least seconds away, 0 to 86,400.
 * What is outside is cut to these bounds; what is no number leaves the wait to the tier, and the message says so.
 */
export class RetryAfter extends Error {
  constructor(seconds: number, error?: unknown);
  readonly seconds: number;
}

/**
 * Thrown by a handler: the job goes back for seconds, 1 to 31,536,000, without spending a retry. What is outside is cut
 * to these bounds; what is no number is a failed attempt. The reason is cut at 512 bytes.
 */
export class Later extends Error {
  constructor(seconds: number, reason?: unknown);
  readonly seconds: number;
}

/** Why a handler should end: the reason of its job's signal. */
export class Stopped extends Error {}

/** Another worker may hold the job. */
export class LeaseLost extends Stopped {}

/** A user cancelled the job. */
export class Cancelled extends Stopped {}

/** The maximum processing time is over. If the attempt fails then, the server counts it as MAX_TIME_EXCEEDED. */
export class MaxTime extends Stopped {}

/** The worker stops: the job goes back to its queue, no retry spent. */
export class Stopping extends Stopped {}
