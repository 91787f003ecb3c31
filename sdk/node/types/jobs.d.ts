/** A class of service: paid, unpaid, public, or one that an operator added. Either case. */
export type Tier = string;

export type Status = 'SCHEDULED' | 'HELD' | 'WAITING' | 'PENDING' | 'PROCESSING' | 'COMPLETED' | 'FAILED' | 'CANCELLED'
  | 'EXPIRED';

/** The state of a job. Times are RFC 3339 texts; what there is not yet is null. */
export interface Poll<Result = unknown> {
  jobId: string;
  status: Status;
  tier: string;
  type: string;
  retryCount: number;
  maxRetries: number;
  arrivedAt: string | null;
  firstTriedAt: string | null;
  completedAt: string | null;
  runAt: string | null;
  /** Of a job that was never claimed: when it ends EXPIRED. */
  expiresAt: string | null;
  position: number | null;
  etaSeconds: number | null;
  result: Result | null;
  failureCause: string | null;
  lastError: string | null;
  traceId: string | null;
  /** How far the last handler has said it was, in its own units; total is null where it did not know. */
  progress?: { at: string; done: number; total: number | null; note: string | null };
}

/** Of the caller's jobs with one unique key only one lives at a time. */
export interface Unique {
  /** 1 to 128 bytes. */
  key: string;
  /** How long the job holds the key: until a worker claims it, until it has ended (default), or so many seconds. */
  while?: 'waiting' | 'living' | number;
  /**
   * If another job holds the key: return its id (default); refuse with a TierqError UNIQUE_TAKEN that names it; replace
   * its payload if no worker has claimed it, else as after; after: the new job is HELD until the holder has ended.
   */
  on?: 'return' | 'refuse' | 'replace' | 'after';
  /** With replace: how many seconds after its arrival a replaced job is due at the latest. */
  maxWait?: number;
}

export interface SubmitOptions {
  /** The queue in which the job waits. */
  queue?: string;
  delaySeconds?: number;
  /** An RFC 3339 text. */
  runAt?: string;
  /** If no worker claims the job within so many seconds, it does not run: it ends EXPIRED. */
  expiresIn?: number;
  /** The same as an RFC 3339 text. */
  expiresAt?: string;
  maxRetries?: number;
  maxProcessingSeconds?: number;
  callbackUrl?: string;
  unique?: Unique;
  /**
   * 1 to 128 bytes: in a tier whose plan has lines the job waits in the line of this key. The lines share the worker
   * time, and a key may have limits. A tier without lines refuses it.
   */
  key?: string;
  /** The batchId of an open batch: the job becomes its member. Excludes unique. */
  batch?: string;
  /** The same key within an hour makes no second job. By default each submit has a key of its own. */
  idempotencyKey?: string;
}

export interface Submission extends SubmitOptions {
  type: string;
  payload?: unknown;
}
