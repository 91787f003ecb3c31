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

export interface LogCalls {
  /** Returns what a job's handlers logged, over all attempts. */
  logs(jobId: string, filter?: LogFilter): Promise<LogPage>;
  /**
   * Yields the lines of a job's log, in order, until the job has ended. It asks for the lines behind the last one, so
   * no interruption loses or repeats a line. An aborted signal ends it with the signal's reason.
   */
  followLogs(jobId: string, filter?: Omit<LogFilter, 'limit' | 'wait'> & { signal?: AbortSignal }):
    AsyncGenerator<LogLine, void, void>;
}
