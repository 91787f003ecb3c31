import type { FlowJob } from './flows.js';
import type { Status, Tier } from './jobs.js';

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
  /**
   * Aborted when the handler should end. Its reason is a LeaseLost, Cancelled, MaxTime or Stopping, whose message says
   * why. A handler that goes on keeps its slot.
   */
  readonly signal: AbortSignal;
  /**
   * Stores the progress in place of the checkpoint before. After that a later attempt of the same generation finds it
   * in checkpoint, whatever becomes of this process. It throws at once if the progress is no JSON of at most 16 KiB and
   * 32 levels, or has a number that is not finite; lone surrogates become U+FFFD. The promise fails with a TierqError
   * if the server refuses the checkpoint, and otherwise with the signal's reason; a handler need not wait for it. No
   * error costs more than the attempt of this handler.
   */
  save(progress: Checkpoint): Promise<void>;
  /**
   * Says how far the handler is: done of total, in units of its own, and a note, cut at 200 bytes; total 0: the handler
   * does not know. All who ask for the job see it within about a second; a worker sends at most one call a second
   * because of progress. It never waits, throws nothing, and fails no attempt: numbers become whole ones from 0 to
   * 2^53-1.
   */
  progress(done: number, total?: number, note?: string): void;
  /**
   * Adds lines to the job's log, which users read; the worker's log gets them, too. The lines are sent about a second
   * later, and before the job's report. A line never waits for the server, throws nothing, and fails no attempt: what
   * does not fit is lost, and the log says how many lines. A text is cut at 4 KiB. attrs that do not fit after it are
   * left out, as are members of attrs that are no JSON.
   */
  readonly log: Record<'info' | 'warn' | 'error', (text: unknown, attrs?: object) => void>;
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
  /**
   * How long a job stays the worker's without a heartbeat, 5 to 3600 s. The default follows the job's tier: its
   * heartbeat timeout, at least 5 s (PUBLIC 5, UNPAID 6, PAID 15 s).
   */
  lease?: number;
  /** For how many ms run waits for the running handlers when it ends; by default 25,000. */
  drain?: number;
  /** 1 to 64 of A-Z a-z 0-9 . _ -, and no other running worker's. */
  name?: string;
  /** The program's version, for operators: 1 to 64 visible ASCII characters. */
  version?: string;
  /**
   * false: claims and heartbeats are made from the event loop, with the program's own fetch. A handler that blocks the
   * event loop for as long as the lease then loses its job.
   */
  thread?: boolean;
  /** By default console. What it throws is ignored. */
  log?: Pick<Console, 'info' | 'warn' | 'error'>;
}

/**
 * Claims jobs of some queues, runs their handlers, and reports how each ended. It keeps the jobs that it holds by
 * heartbeats, all in one call; reports travel with the next claim; every call is repeated until it is answered, and the
 * server counts it once. A job may run more than once: use its id as the key of its side effects.
 *
 * Whatever a handler returns, throws, saves or logs costs at most its own attempt. Claims and heartbeats are made from
 * a thread, so a handler that blocks the event loop loses no lease; its signal is not aborted while it blocks.
 */
export class Worker {
  constructor(url: string | undefined, queues: string[], options?: WorkerOptions);
  readonly name: string;
  /**
   * Makes fn the handler of a job type. What it returns, any JSON, is the job's result; lone surrogates in it become
   * U+FFFD, and what is no JSON fails the job. An error fails the attempt, and the tier decides whether there is
   * another; Permanent, RetryAfter and Later ask for something else. Jobs of types without a handler go back to their
   * queue.
   */
  handle<Payload = any, Result = unknown>(
    type: string, fn: (payload: Payload, job: Job<Payload>) => Result | Promise<Result>): this;
  /**
   * Claims and runs jobs until stop is called, or SIGTERM or SIGINT comes. Then it claims nothing more, and waits for
   * the running handlers. After that it aborts the signals of the handlers that still run: the job of a handler that
   * throws then goes back to its queue, at no cost. A handler that goes on keeps its job until the lease is over. The
   * error is the server's refusal of the first claim, or that for ten seconds no such queue was declared; it says then
   * what to type.
   */
  run(options?: { signals?: boolean }): Promise<void>;
  /** Ends run. */
  stop(): void;
}
