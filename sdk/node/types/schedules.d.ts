import type { Tier } from './jobs.js';

/** The jobs of a schedule: the members of a submit. */
export interface ScheduledJob {
  /** By default UNPAID. */
  tier?: Tier;
  type: string;
  payload?: unknown;
  queue?: string;
  key?: string | null;
  maxRetries?: number | null;
  maxProcessingSeconds?: number | null;
  callbackUrl?: string | null;
  /** Seconds. */
  expiresIn?: number | null;
}

/** A schedule to store: cron or everySeconds, and a job. Times are RFC 3339 texts. */
export interface NewSchedule {
  /** Minute, hour, day of the month, month, day of the week; or @daily and its like. */
  cron?: string | null;
  everySeconds?: number | null;
  /** The zone whose clock cron means, such as Europe/Berlin; by default UTC. */
  timezone?: string | null;
  start?: string | null;
  end?: string | null;
  /** Each occurrence is fired later by a part of this window. */
  jitterSeconds?: number;
  /** What happens while the job of an earlier occurrence lives; by default skip. */
  overlap?: 'skip' | 'allow' | 'one' | 'replace';
  /** Which occurrences are fired later if no server could fire them in time; by default last. */
  catchUp?: 'last' | 'none' | 'all';
  job: ScheduledJob;
}

/** A schedule as the server has it. */
export interface Schedule extends NewSchedule {
  name: string;
  /** The id of the API key that stored it last. */
  owner: string | null;
  paused: { since: string; by: string | null; reason: string | null } | null;
  lastOccurrence: string | null;
  /** The next five; none while it is paused. */
  next: string[];
  /** Grows with each change. */
  version: number;
  createdAt: string;
  changedAt: string;
  /** The last occurrences, fired or missed, the latest first; only schedule has it. */
  runs?: ScheduleRun[];
}

/** An occurrence that was fired, or all missed occurrences from occurrence to through. */
export interface ScheduleRun {
  occurrence: string;
  through: string;
  status: 'FIRED' | 'MISSED';
  jobId: string | null;
  /** The job has not ended. */
  living: boolean;
  /** An operator asked for it. */
  asked: boolean;
  /** null: fired, or too many to count. */
  missed: number | null;
  reason: 'DOWN' | 'GATE' | 'PAUSED' | 'FULL' | 'QUOTA' | 'OVERLAP' | 'INVALID' | null;
  detail: string | null;
  at: string;
}

/** With ifVersion a call changes this version only, 0 being none: the error is a TierqError with status 412. */
export interface VersionOptions {
  ifVersion?: number;
}

/** Schedules are an operator's: a server with keys asks for one of the role operator, and to change them, admin. */
export interface ScheduleCalls {
  /** Returns all schedules by name, without payloads and runs. */
  schedules(): Promise<Schedule[]>;
  /** Returns a schedule with its runs. */
  schedule(name: string): Promise<Schedule>;
  /**
   * Stores a schedule in place of one of this name, and returns it. It takes what schedule has returned, too, and sends
   * only the members of NewSchedule. A schedule that is stored as asked already keeps its version. With ifVersion the
   * call is not repeated after a lost answer: the error is an OutcomeUnknown then.
   */
  putSchedule(name: string, schedule: NewSchedule, options?: VersionOptions): Promise<Schedule>;
  /** Deletes a schedule; jobs that it has made go on. After a lost answer the error is an OutcomeUnknown. */
  deleteSchedule(name: string, options?: VersionOptions): Promise<void>;
  /** Makes a schedule make no jobs until it is resumed. */
  pauseSchedule(name: string, options?: { reason?: string }): Promise<Schedule>;
  /** Lets a paused schedule go on, with the next occurrence from now. */
  resumeSchedule(name: string): Promise<Schedule>;
  /** Makes a job of a schedule now, beside its occurrences, and returns its id. The same key makes no second job. */
  runSchedule(name: string, options?: { idempotencyKey?: string }): Promise<string>;
  /** Returns the next occurrences, 5 by default and 100 at most, after a time or now. */
  nextOfSchedule(name: string, options?: { n?: number; from?: Date | string }): Promise<string[]>;
}
