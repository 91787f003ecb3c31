import type { WaitOptions } from './client.js';
import type { Status, Tier } from './jobs.js';

/** A job of a flow: the members of POST /jobs without batch. delaySeconds and expiresIn count from its release. */
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
  /** Its fate when one of those does not complete; by default cancel. */
  onFailure?: 'cancel' | 'run' | 'wait';
}

export type FlowState = 'RUNNING' | 'STUCK' | 'COMPLETED' | 'FAILED' | 'CANCELLED';

/** A flow in a list. */
export interface FlowSummary {
  flowId: string;
  name: string;
  /** STUCK: all that is left waits for a failed job to be requeued. */
  state: FlowState;
  cancelRequested: boolean;
  createdAt: string;
  endedAt: string | null;
  /** living jobs wait in a queue or run. */
  counts: Record<'waiting' | 'living' | 'completed' | 'failed' | 'cancelled' | 'expired', number>;
}

/** A flow with its jobs. */
export interface Flow extends FlowSummary {
  jobs: {
    name: string; jobId: string; status: Status; tier: Tier; type: string; queue: string; generation: number;
    after: string[]; onFailure: 'cancel' | 'run' | 'wait'; failureCause: string | null;
  }[];
}

export interface FlowCalls {
  /** Submits jobs that wait for each other, all or none. The errors are those of submit, and name the job. */
  submitFlow(flow: { name?: string; jobs: Record<string, FlowJob> }, options?: { idempotencyKey?: string }):
    Promise<{ flowId: string; jobs: Record<string, string> }>;
  /** Returns a flow with its jobs. */
  flow(flowId: string): Promise<Flow>;
  /** Yields the caller's own flows, or with an operator's key all, the latest first. jobId: the flow of this job. */
  flows(filter?: { state?: FlowState; jobId?: string }): AsyncGenerator<FlowSummary, void, void>;
  /**
   * Waits until all jobs of a flow are COMPLETED, and returns it. The error is a FlowFailed if it ended otherwise or is
   * STUCK, the signal's reason, or after timeout ms a DOMException named TimeoutError.
   */
  waitFlow(flowId: string, options?: WaitOptions): Promise<Flow>;
  /** Cancels all jobs of a flow that have not ended, and returns its state. A repeat ends the others. */
  cancelFlow(flowId: string, options?: { reason?: string }): Promise<FlowState>;
}
