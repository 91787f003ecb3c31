// The reports of a worker: the ends of attempts that the server has not acknowledged.
import { isObject, isRefusal, pause, problemOf, rest } from './call.js';
import { LeaseLost, MaxTime, TierqError } from './errors.js';
import { CALL_TIME, MOST_BYTES } from './limits.js';
import { standIn } from './outcome.js';

const MOST_REPORTS = 1000;

export class Reports {
  #w;
  #waiting = []; // {attempt, report}; alone: a call has failed; single: it was refused; replaced: see #replace
  #wake = () => {};

  constructor(worker) {
    this.#w = worker;
  }

  add(attempt, report) {
    this.#waiting.push({ attempt, report, text: report.text });
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
      if (!isRefusal(e)) {
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
      const answer = Array.isArray(answers) && isObject(answers[i]) ? answers[i] : undefined;
      if (answer?.outcome && !answer.error) return this.#w.release(r.attempt);
      const { errorCode: code, ...said } = problemOf(answer ? answer.error : { status: 503,
        detail: 'the answer lacks reports' });
      if (code === 'LEASE_LOST') {
        this.#w.log.warn(`${r.attempt.title}: the server did not take its result: ${whyLate(r.attempt)}`);
        return this.#w.release(r.attempt);
      }
      const e = new TierqError(`report: ${said.status} ${code}: ${said.detail}`, { ...said, code });
      if (isRefusal(e)) return this.#replace(r, said.detail);
      failed = e;
      return this.putBack([r]);
    });
    return failed;
  }

  // Sends another report in place of one that the server refuses. If the server refuses that too, the lease runs out.
  #replace(r, why) {
    this.#w.log.error(`${r.attempt.title}: the server refuses the report: ${why}`);
    if (r.replaced) return this.#w.release(r.attempt);
    const report = standIn(r.attempt.lease, r.report, why);
    return this.putBack([{ attempt: r.attempt, report, text: report.text, single: true, replaced: true }]);
  }
}

function whyLate({ cause }) {
  const ended = 'the attempt had ended before';
  return cause instanceof MaxTime || cause instanceof LeaseLost ? `${ended}: ${cause.message}` : ended;
}
