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

/** A line of a job's log. */
export interface LogLine {
  /** Grows from line to line, also over attempts and requeues. */
  seq: number;
  attempt: number;
  at: string;
  /** GAP stands where lost lines are missing. */
  level: 'DEBUG' | 'INFO' | 'WARN' | 'ERROR' | 'GAP';
  text: string;
  attrs?: Record<string, unknown>;
  lost?: number;
}

/** Lines of a log, the oldest first. */
export interface LogPage {
  items: LogLine[];
  /** What the next call asks with. */
  after: number;
  /** There are further lines now. */
  more: boolean;
  /** The job has ended. */
  ended: boolean;
}

/** Which lines are asked for: behind a seq, of an attempt, of a level or a higher one. */
export interface LogFilter {
  after?: number;
  attempt?: number;
  level?: 'DEBUG' | 'INFO' | 'WARN' | 'ERROR';
  /** 1 to 2000. */
  limit?: number;
  /** For how many ms the server holds the answer until there are such lines, up to 60,000. */
  wait?: number;
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

export interface ClientOptions {
  /** An API key; by default TIERQ_KEY. */
  key?: string;
  /** Of each try, in ms; by default 30,000. */
  timeout?: number;
  /** How often a call is tried after a lost reply, 429, 502, 503 and 504; by default 6. */
  tries?: number;
}

/** Calls one server, or several behind one address. The url is by default TIERQ_URL. */
export class Client {
  constructor(url?: string, options?: ClientOptions);
  /**
   * Submits a job, and returns its id. The error is an OutcomeUnknown if the job may have been accepted; any other
   * means that it was not.
   */
  submit(tier: Tier, type: string, payload?: unknown, options?: SubmitOptions): Promise<string>;
  /** Submits many jobs, 1000 a call, and returns for each its id or the error that refused it. */
  submitMany(tier: Tier, jobs: Submission[]): Promise<(string | TierqError)[]>;
  /** Returns the state of a job. */
  poll<Result = unknown>(jobId: string): Promise<Poll<Result>>;
  /** Returns what a job's handlers logged, over all attempts. */
  logs(jobId: string, filter?: LogFilter): Promise<LogPage>;
  /**
   * Waits for the end of a job, and returns it when it is COMPLETED. The error is JobFailed, JobCancelled, JobExpired,
   * the signal's reason, or after timeout ms a DOMException named TimeoutError.
   */
  wait<Result = unknown>(jobId: string, options?: { timeout?: number; signal?: AbortSignal }): Promise<Poll<Result>>;
  /** Cancels a job, and returns its status: PROCESSING while its worker has yet to be told. */
  cancel(jobId: string): Promise<Status>;
  /** Makes an open batch: a group of jobs with at most one job, then, when all of them have ended. */
  createBatch(batch: NewBatch, options?: { idempotencyKey?: string }): Promise<Batch>;
  /** Returns a batch with its counts. */
  batch(batchId: string): Promise<Batch>;
  /** Ends the adding of members. A repeat changes nothing. */
  sealBatch(batchId: string): Promise<Batch>;
  /** Submits jobs that wait for each other, all or none. The errors are those of submit, and name the job. */
  submitFlow(flow: { name?: string; jobs: Record<string, FlowJob> }, options?: { idempotencyKey?: string }):
    Promise<{ flowId: string; jobs: Record<string, string> }>;
  /** Returns a flow with its jobs. */
  flow(flowId: string): Promise<Flow>;
  /**
   * Waits until all jobs of a flow are COMPLETED, and returns it. The error is a FlowFailed if it ended otherwise or is
   * STUCK, the signal's reason, or after timeout ms a DOMException named TimeoutError.
   */
  waitFlow(flowId: string, options?: { timeout?: number; signal?: AbortSignal }): Promise<Flow>;
  /** Cancels all jobs of a flow that have not ended, and returns its state. */
  cancelFlow(flowId: string): Promise<FlowState>;
}

/** A batch to make. */
export interface NewBatch {
  name: string;
  /** Of then, if that names none; by default UNPAID. */
  tier?: string;
  /** Runs when all members have ended; with on succeeded only if all are COMPLETED. */
  then?: {
    type: string; payload?: unknown; tier?: string; queue?: string; maxRetries?: number; on?: 'finished' | 'succeeded';
  };
  callbackUrl?: string;
}

/** A batch as the server has it. */
export interface Batch {
  batchId: string;
  name: string;
  /** OPEN takes members; STUCK: the job at the end waits for members that failed. */
  state: 'OPEN' | 'RUNNING' | 'STUCK' | 'FINISHED';
  round: number;
  sealed: boolean;
  total: number;
  living: number;
  completed: number;
  failed: number;
  cancelled: number;
  expired: number;
  /** 0 to 1. */
  progress: number;
  thenJobId: string | null;
}

/** A job of a flow: the members of POST /jobs without unique, expiresIn and expiresAt. */
export interface FlowJob {
  type?: string;
  payload?: unknown;
  /** By default UNPAID. */
  tier?: string;
  queue?: string;
  key?: string;
  delaySeconds?: number;
  runAt?: string;
  maxRetries?: number;
  maxProcessingSeconds?: number;
  callbackUrl?: string;
  /** The names of the jobs that it waits for; 'split/*' is split and all that are named below it. */
  after?: string[];
  /** What becomes of it when one of those does not complete; by default cancel. */
  onFailure?: 'cancel' | 'run' | 'wait';
}

export type FlowState = 'RUNNING' | 'STUCK' | 'COMPLETED' | 'FAILED' | 'CANCELLED';

export interface Flow {
  flowId: string;
  name: string;
  state: FlowState;
  counts: Record<'waiting' | 'living' | 'completed' | 'failed' | 'cancelled' | 'expired', number>;
  jobs: { name: string; jobId: string; status: Status; after: string[] }[];
}

/** What a job of a flow left behind. */
export interface Input {
  name: string;
  jobId: string;
  status: Status;
  /** null unless COMPLETED, and if it is tooLarge. */
  result: unknown;
  failureCause: string | null;
  lastError: string | null;
  /** inputs leaves out results above 1 KiB; input has them. */
  tooLarge: boolean;
}

/** A job that a worker holds. */
export interface Job<Payload = unknown, Checkpoint = unknown> {
  /** The same in each attempt: the key of the job's side effects. */
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly tier: string;
  readonly payload: Payload;
  /** From 1. */
  readonly attempt: number;
  /** Retries that were spent. */
  readonly retryCount: number;
  readonly maxRetries: number;
  /** From 1; each requeue of an ended job begins another. */
  readonly generation: number;
  /** The last one of an earlier attempt of this generation. */
  readonly checkpoint?: Checkpoint;
  readonly traceId?: string;
  readonly traceparent?: string;
  /** Aborted when the handler should end; its reason is a LeaseLost, Cancelled, MaxTime or Stopping. */
  readonly signal: AbortSignal;
  /**
   * Stores the progress, any JSON of at most 16 KiB, in place of the checkpoint before. After that a later attempt of
   * the same generation finds it in checkpoint, whatever becomes of this process. The error is the signal's reason.
   */
  save(progress: Checkpoint): Promise<void>;
  /**
   * Says how far the handler is: done of total, in units of its own, and a note of at most 200 bytes; total 0: the
   * handler does not know. The next heartbeat takes the last one along, and all who ask for the job see it. It never
   * waits, and fails no attempt.
   */
  progress(done: number, total?: number, note?: string): void;
  /**
   * Adds lines to the job's log, which users read; the worker's log gets them, too. The lines are sent about a second
   * later, and before the job's report. A line never waits for the server, and fails no attempt: what does not fit is
   * lost, and the log says how many lines. A text is cut at 4 KiB; attrs that do not fit beside it are left out.
   */
  readonly log: Record<'info' | 'warn' | 'error', (text: string, attrs?: object) => void>;
  /** The flow whose job it is. */
  readonly flowId?: string;
  /** Returns what the jobs that it waited for in its flow left behind, by name. */
  inputs(): Promise<Input[]>;
  /** Returns what one job that it waited for left behind, whole; a TierqError with status 404 if there is none. */
  input(name: string): Promise<Input>;
  /**
   * Adds jobs to its flow, all or none, and returns their ids by name. Each name begins with the job's own name and a
   * slash; a job of the flow that is after '<own name>/*' waits for all of them. The same jobs may be added again. The
   * worker's key must be allowed to submit.
   */
  addToFlow(jobs: Record<string, FlowJob>): Promise<Record<string, string>>;
}

export interface WorkerOptions {
  /** An API key of the role worker; by default TIERQ_KEY. */
  key?: string;
  /** How many handlers run at once, 1 to 1000; by default 10. */
  concurrency?: number;
  /** Only jobs of these tiers, whose priorities must follow each other. */
  tiers?: Tier[];
  /** How long a job stays the worker's without a heartbeat, 5 to 3600 s; by default 30. */
  lease?: number;
  /** For how many ms run waits for the running handlers when it ends; by default 25,000. */
  drain?: number;
  /** 1 to 64 of A-Z a-z 0-9 . _ -, and no other running worker's. */
  name?: string;
  /** The program's version, for operators: 1 to 64 visible ASCII characters. */
  version?: string;
  /** By default console. */
  log?: Pick<Console, 'info' | 'warn' | 'error'>;
}

/**
 * Claims jobs of some queues, runs their handlers, and reports how each ended. It keeps the jobs that it holds by
 * heartbeats, all in one call; reports travel with the next claim; every call is repeated until it is answered, and the
 * server counts it once. A job may run more than once: use its id as the key of its side effects.
 */
export class Worker {
  constructor(url: string | undefined, queues: string[], options?: WorkerOptions);
  readonly name: string;
  /**
   * Makes fn the handler of a job type. What it returns, any JSON, is the job's result. An error fails the attempt, and
   * the tier decides whether there is another; Permanent, RetryAfter and Later ask for something else. Jobs of types
   * without a handler go back to their queue.
   */
  handle<Payload = any, Result = unknown>(
    type: string, fn: (payload: Payload, job: Job<Payload>) => Result | Promise<Result>): this;
  /**
   * Claims and runs jobs until stop is called, or SIGTERM or SIGINT comes. Then it claims nothing more, and waits for
   * the running handlers. After that it aborts the signals of the handlers that still run: the job of a handler that
   * throws then goes back to its queue, at no cost. A handler that goes on keeps its job until the lease is over. The
   * error is the server's refusal of the first claim.
   */
  run(options?: { signals?: boolean }): Promise<void>;
  /** Ends run. */
  stop(): void;
}

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
