// The errors of calls, and what a handler throws. types/errors.d.ts says what each means.
import { messageOf } from './text.js';

class Named extends Error {
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}

export class TierqError extends Named {
  constructor(message, { status = 0, code = '', detail = '', jobId, errors = [], retryAfter = 0 } = {}) {
    super(message);
    Object.assign(this, { status, code, detail, jobId, errors, retryAfter });
  }

  // Whether the same call may succeed later.
  get passing() {
    const { status } = this;
    return status === 0 || status === 408 || status === 429 || status > 501;
  }
}

export class Unavailable extends TierqError {}

export class OutcomeUnknown extends TierqError {}

export class JobFailed extends TierqError {
  constructor(job) {
    super(`job ${job.jobId} failed: ${job.failureCause}: ${job.lastError}`, { jobId: job.jobId });
    this.job = job;
  }
}

export class JobCancelled extends TierqError {
  constructor(job) {
    super(`job ${job.jobId} was cancelled`, { jobId: job.jobId });
    this.job = job;
  }
}

export class JobExpired extends TierqError {
  constructor(job) {
    super(`job ${job.jobId} expired: no worker claimed it in time`, { jobId: job.jobId });
    this.job = job;
  }
}

export class FlowFailed extends TierqError {
  constructor(flow) {
    super(`flow ${flow.flowId} is ${flow.state}`);
    this.flow = flow;
  }
}

export class BatchStuck extends TierqError {
  constructor(batch) {
    const { batchId, failed, cancelled, expired } = batch;
    super(`batch ${batchId} is STUCK: ${failed} failed, ${cancelled} cancelled, ${expired} expired`);
    this.batch = batch;
  }
}

export class Permanent extends Named {
  constructor(error) {
    super(messageOf(error) || 'permanent: the handler gave no error');
  }
}

export class RetryAfter extends Named {
  constructor(seconds, error) {
    super(messageOf(error) || 'retry after: the handler gave no error');
    this.seconds = seconds;
  }
}

export class Later extends Named {
  constructor(seconds, reason) {
    super(messageOf(reason));
    this.seconds = seconds;
  }
}

export class Stopped extends Named {}

export class LeaseLost extends Stopped {}

export class Cancelled extends Stopped {}

export class MaxTime extends Stopped {}

export class Stopping extends Stopped {}

// This worker has no handler for a job's type.
export class UnknownType extends Named {}
