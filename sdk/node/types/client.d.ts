import type { BatchCalls } from './batches.js';
import type { TierqError } from './errors.js';
import type { FlowCalls } from './flows.js';
import type { Poll, Status, SubmitOptions, Submission, Tier } from './jobs.js';
import type { LogCalls } from './logs.js';
import type { ScheduleCalls } from './schedules.js';

export interface ClientOptions {
  /** An API key; by default TIERQ_KEY. */
  key?: string;
  /** Of each try, in ms; by default 30,000. */
  timeout?: number;
  /** How often a call is tried after a lost reply, 429, 502, 503 and 504; by default 6. */
  tries?: number;
}

/** timeout is in ms; by default there is none. */
export interface WaitOptions {
  timeout?: number;
  signal?: AbortSignal;
}

export interface Client extends BatchCalls, FlowCalls, LogCalls, ScheduleCalls {}

/** Calls one server, or several behind one address. The url is by default TIERQ_URL. */
export class Client {
  constructor(url?: string, options?: ClientOptions);
  /**
   * Submits a job, and returns its id. The error is an OutcomeUnknown if the job may have been accepted; any other
   * means that it was not.
   */
  submit(tier: Tier, type: string, payload?: unknown, options?: SubmitOptions): Promise<string>;
  /**
   * Submits many jobs, in calls of at most 1000 jobs and 15 MiB, and returns for each, in order, its id or its error.
   * A job that is refused for now, or whose answer was lost, is submitted again with the same key, as often as a submit
   * alone is tried; its error is an OutcomeUnknown if it may have been accepted. It rejects, with nothing sent, only if
   * a job is no JSON or has an unknown option.
   */
  submitMany(tier: Tier, jobs: Submission[]): Promise<(string | TierqError)[]>;
  /** Returns the state of a job. */
  poll<Result = unknown>(jobId: string): Promise<Poll<Result>>;
  /**
   * Waits for the end of a job, and returns it when it is COMPLETED. The error is JobFailed, JobCancelled, JobExpired,
   * the signal's reason, or after timeout ms a DOMException named TimeoutError.
   */
  wait<Result = unknown>(jobId: string, options?: WaitOptions): Promise<Poll<Result>>;
  /** Cancels a job, and returns its status: PROCESSING while its worker has yet to be told. */
  cancel(jobId: string): Promise<Status>;
}
