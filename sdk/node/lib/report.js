// The reports of a worker: the ends of attempts that the server has not acknowledged.
import {
  Later, LeaseLost, Permanent, RetryAfter, Stopping, TierqError, UnknownType,
} from './errors.js';
import { pause, rest } from './call.js';

export const CALL_TIME = 15_000; // ms for a call's answer, beside the time that a claim asks the server to wait
export const MOST_BYTES = 4 << 20; // of the reports, or checkpoints, of one call
const MOST_REPORTS = 1000;

export class Reports {
  #w;
  #waiting = []; // {job, text}; alone: a call with it has failed; single: it was refused; replaced: see #replace
  #wake = () => {};

  constructor(worker) {
    this.#w = worker;
  }

  add(job, text) {
    this.#waiting.push({ job, text });
    this.#wake();
  }

  // Takes the oldest reports that one call may carry. A claim carries the reports that were in no call yet. A call
  // without a claim carries the others, and all reports while no claim is about to be made.
  take(withClaim) {
    const taken = [], left = [];
    let size = 0;
    for (const r of this.#waiting) {
      const full = taken.length === MOST_REPORTS ||
        (taken.length > 0 && (size + r.text.length > MOST_BYTES || r.single || taken[0].single));
      if (full || (withClaim ? r.alone : this.#w.hungry && !r.alone)) {
        left.push(r);
      } else {
        taken.push(r);
        size += r.text.length;
      }
    }
    this.#waiting = left;
    return taken;
  }

  // Keeps reports for another call, without a claim.
  putBack(reports) {
    for (const r of reports) r.alone = true;
    this.#waiting.unshift(...reports);
    this.#wake();
  }

  // Looks again at what waits: a claim was sent, or the worker ends.
  wake() {
    this.#wake();
  }

  // Sends the reports that no claim carries, until the signal is aborted.
  async run(signal) {
    for (let failures = 0; !signal.aborted; ) {
      const batch = this.take(false);
      if (batch.length === 0) {
        await new Promise((resolve) => (this.#wake = resolve));
        continue;
      }
      const error = await this.#send(batch);
      failures = error ? failures + 1 : 0;
      if (error) {
        this.#w.log.warn('reports were not answered, and are sent again:', error.message);
        await rest(pause(failures, error), signal);
      }
    }
  }

  async #send(batch) {
    const body = `{"worker":${JSON.stringify(this.#w.name)},"reports":[${batch.map((r) => r.text).join(',')}]}`;
    try {
      const answer = await this.#w.call('report', { body, timeout: CALL_TIME });
      return this.acknowledge(batch, answer.reports);
    } catch (e) {
      if (!(e instanceof TierqError)) throw e;
      if (e.passing || e.status >= 500) {
        this.putBack(batch);
        return e;
      }
      if (batch.length > 1) {
        for (const r of batch) r.single = true;
        this.putBack(batch);
      } else {
        this.#replace(batch[0], e.detail);
      }
      return undefined;
    }
  }

  // Lets go of the jobs whose reports were answered; the error says why some were not carried out.
  acknowledge(batch, answers) {
    let failed;
    batch.forEach((r, i) => {
      const said = i < answers.length ? answers[i].error : { status: 503, detail: 'the answer lacks reports' };
      if (!said || said.errorCode === 'LEASE_LOST') {
        if (said) this.#w.log.info(`job ${r.job.id} is not this worker's any more: its report counts nothing`);
        this.#w.release(r.job);
        return;
      }
      const e = new TierqError(`report: ${said.status} ${said.errorCode}: ${said.detail}`, said);
      if (e.passing || e.status >= 500) {
        failed = e;
        this.putBack([r]);
      } else {
        this.#replace(r, said.detail);
      }
    });
    return failed;
  }

  // Reports a permanent failure in place of a report that the server refuses: each attempt would end with such a
  // report, of too large a result for example. If the server refuses the second report too, the lease runs out.
  #replace(r, why) {
    this.#w.log.error(`the server refuses the report of job ${r.job.id}: ${why}`);
    if (r.replaced) return this.#w.release(r.job);
    const failed = { error: { message: short(`the server refused the report: ${why}`) }, permanent: true };
    const text = JSON.stringify({ lease: r.job.inner.lease, failed });
    this.putBack([{ job: r.job, text, single: true, replaced: true }]);
  }
}

// Returns the report of a handler's end.
export function reportOf(job, result, error) {
  const { lease } = job.inner;
  if (!error) {
    try {
      return `{"lease":${JSON.stringify(lease)},"completed":{"result":${JSON.stringify(result) ?? 'null'}}}`;
    } catch (e) {
      error = new Permanent(`result: ${e.message}`);
    }
  }
  const cause = job.signal.reason;
  return JSON.stringify({ lease, ...endOf(error, cause) });
}

function endOf(error, cause) {
  const message = short(String(error?.message ?? error));
  if (error instanceof Later) {
    return { released: { delaySeconds: Math.max(Math.ceil(error.seconds), 1), ...(message && { reason: message }) } };
  }
  if (error instanceof Permanent) return { failed: { error: { message }, permanent: true } };
  if (cause instanceof Stopping || cause instanceof LeaseLost) {
    return { released: {} }; // the worker disturbed the handler, which must not cost a retry
  }
  if (error instanceof RetryAfter) {
    return { failed: { error: { message }, retryAfterSeconds: Math.max(Math.ceil(error.seconds), 0) } };
  }
  if (error instanceof UnknownType) return { failed: { error: { message, type: 'UNKNOWN_JOB_TYPE' } } };
  const stack = error?.stack ? short(error.stack) : undefined;
  return { failed: { error: { message, type: error?.name ? short(String(error.name)) : undefined, stack } } };
}

function short(text) {
  return text.slice(0, 4096);
}
