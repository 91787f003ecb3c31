import type { WaitOptions } from './client.js';
import type { Submission, Tier } from './jobs.js';

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
  /** The first members, 1000 at most: the server takes the batch with all of them, or not at all. */
  jobs?: BatchJob[];
  /** The batch takes no other members. */
  sealed?: boolean;
}

/** A job that comes with the call that makes its batch. The key of that call covers it. */
export interface BatchJob extends Omit<Submission, 'unique' | 'batch' | 'idempotencyKey'> {
  /** By default the batch's. */
  tier?: Tier;
  traceId?: string;
}

/** A batch as the server has it. */
export interface Batch {
  batchId: string;
  name: string;
  /** OPEN takes members; STUCK: the job at the end waits for members that failed. */
  state: 'OPEN' | 'RUNNING' | 'STUCK' | 'FINISHED';
  /** A requeue of a failed member after the end begins the next one. */
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
  /** Of the last round; null until it is owed. */
  thenJobId: string | null;
  /** The ids of the jobs that came with createBatch, in their order; only createBatch returns them. */
  jobs?: string[];
  callbackUrl: string | null;
  createdAt: string;
  endedAt: string | null;
  /** When a cancel was first asked for. */
  cancelledAt: string | null;
}

/** A job of a batch. */
export interface BatchMember {
  jobId: string;
  /** LIVING, or how it ended; LOST if the server has the job no more. */
  status: 'LIVING' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'EXPIRED' | 'LOST';
  generation: number;
  endedAt: string | null;
}

/** The counts of a cancel of a batch: members that waited have ended, and members that run are asked to stop. */
export interface BatchCancelled {
  batchId: string;
  cancelled: number;
  asked: number;
}

export interface BatchCalls {
  /**
   * Makes a batch: a group of jobs with at most one job, then, when all of them have ended. It is open, unless it is
   * made sealed. Errors about a job name it, as jobs.<place>.
   */
  createBatch(batch: NewBatch, options?: { idempotencyKey?: string }): Promise<Batch>;
  /** Returns a batch with its counts. */
  batch(batchId: string): Promise<Batch>;
  /** Yields the caller's own batches, or with an operator's key all, the latest first. */
  batches(): AsyncGenerator<Batch, void, void>;
  /** Yields the members of a batch that have a status, or all. */
  batchMembers(batchId: string, filter?: { status?: BatchMember['status'] }): AsyncGenerator<BatchMember, void, void>;
  /** Ends the adding of members. A repeat changes nothing. */
  sealBatch(batchId: string): Promise<Batch>;
  /**
   * Waits until a batch is sealed and no member lives, and returns it. The error is a BatchStuck if its last job waits
   * for members that failed, the signal's reason, or after timeout ms a DOMException named TimeoutError.
   */
  waitBatch(batchId: string, options?: WaitOptions): Promise<Batch>;
  /** Seals a batch, and cancels its members that live. A repeat ends the others. */
  cancelBatch(batchId: string): Promise<BatchCancelled>;
}
