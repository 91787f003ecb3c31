// What a handler tells of its job beside the result: how far it is, and lines of a log.
import { TierqError } from './errors.js';
import { pause, rest } from './call.js';

export const TELL_TIME = 2000; // ms for a call with lines, and for an end that waits for what its handler has told
const LOG_EVERY = 1000; // ms that a line waits for others
const MOST_NOTE = 200; // bytes
const MOST_LINE = 4 << 10; // bytes of the text and of the attributes of a line
const MOST_NUMBER = 998_000; // of a line
const MOST_WAITING = 1000; // lines of a job
const MOST_WAITING_BYTES = 512 << 10;
const MOST_LINES = 500; // in one call
const MOST_AGE = 3_600_000; // ms

// What one handler has told and the server lacks.
export class Told {
  progress; // the JSON of the last progress
  dropped = 0; // lines behind those that wait, which did not fit
  closed = false; // the handler has returned, or the lease is lost
  #lines = [];
  #size = 0;
  #first = 1; // the number of the first line that waits
  #steps = 0;
  #sent;

  get waiting() {
    return this.#lines.length + this.dropped;
  }

  progressed(done, total, note) {
    if (this.closed) return;
    const numbers = { step: ++this.#steps, done: whole(done), total: whole(total) || undefined };
    this.progress = JSON.stringify({ ...numbers, note: cut(note, MOST_NOTE) || undefined });
  }

  // Takes a line, and returns whether it is the first that waits.
  logged(level, message, attrs) {
    if (this.closed || this.#first + this.waiting > MOST_NUMBER) return false;
    const first = this.waiting === 0;
    const text = cut(message, MOST_LINE);
    const json = attrsOf(attrs, MOST_LINE - Buffer.byteLength(text));
    const size = Buffer.byteLength(text) + Buffer.byteLength(json);
    if (this.dropped || this.#lines.length === MOST_WAITING || this.#size + size > MOST_WAITING_BYTES) {
      this.dropped++;
      return first;
    }
    const members = JSON.stringify({ level, text }).slice(0, -1) + (json && `,"attrs":${json}`);
    this.#lines.push({ members, size, at: performance.now() });
    this.#size += size;
    return first;
  }

  // Returns lines for a call, with the number of the first. Lost lines are one null, under the last one's number.
  take(most) {
    const kept = Math.min(this.#lines.length, most);
    if (kept === 0) return { from: this.#first + this.dropped - 1, lines: ['null'], kept, lost: this.dropped };
    const now = performance.now();
    const lines = this.#lines.slice(0, kept).map(({ members, at }) =>
      `${members},"ageMs":${Math.min(Math.floor(now - at), MOST_AGE)}}`);
    return { from: this.#first, lines, kept, lost: 0 };
  }

  // Takes off lines that the server has, or does not take.
  taken({ kept, lost }) {
    this.#first += kept + lost;
    this.dropped = Math.max(this.dropped - lost, 0);
    for (const line of this.#lines.splice(0, kept)) this.#size -= line.size;
    this.told();
  }

  // The server understands none of the lines: they become lost ones.
  refused({ lost }) {
    this.dropped += this.#lines.length - lost;
    this.#first += lost;
    this.#lines = [];
    this.#size = 0;
    this.told();
  }

  // The lease is lost: there is nobody to tell.
  forget() {
    this.closed = true;
    this.#first += this.waiting;
    this.dropped = this.#size = 0;
    this.#lines = [];
    this.progress = undefined;
    this.told();
  }

  // Looks whether the server has everything.
  told() {
    if (this.progress === undefined && this.waiting === 0) this.#sent?.();
  }

  // Waits until the server has everything, two seconds at most.
  rest() {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, TELL_TIME);
      this.#sent = () => (clearTimeout(timer), resolve());
      this.told();
    });
  }
}

// Sends the lines of all jobs that a worker holds, one call at a time.
export class Logs {
  #w;
  #held;
  #dueAt = Infinity;
  #alone = new Set(); // jobs whose lines go in a call of their own: a call with them was refused
  #wake = () => {};

  constructor(worker, held) {
    this.#w = worker;
    this.#held = held;
  }

  // Sends what waits, at the latest after some ms.
  within(ms = LOG_EVERY) {
    this.#dueAt = Math.min(this.#dueAt, performance.now() + ms);
    this.#wake();
  }

  async run(signal) {
    for (let failures = 0; !signal.aborted; ) {
      const wait = this.#dueAt - performance.now();
      if (wait > 0) {
        await new Promise((resolve) => {
          const timer = setTimeout(resolve, Math.min(wait, 60_000));
          this.#wake = () => (clearTimeout(timer), resolve());
        });
        continue;
      }
      this.#dueAt = Infinity;
      const batch = this.#batch();
      const error = batch.length > 0 && (await this.#send(batch));
      failures = error ? failures + 1 : 0;
      if (error) await rest(Math.min(pause(failures, error), LOG_EVERY), signal);
      for (const { told } of batch.map(({ job }) => job.inner)) {
        if (told.waiting > 0) this.within(error || told.closed || told.dropped ? 0 : LOG_EVERY);
      }
    }
  }

  // Returns the lines of one call. The jobs whose reports wait for their lines come first.
  #batch() {
    const jobs = [...this.#held.values()].filter((job) => job.inner.told.waiting > 0);
    jobs.sort((a, b) => b.inner.told.closed - a.inner.told.closed);
    const batch = [];
    let lines = 0;
    for (const job of jobs) {
      const alone = this.#alone.has(job);
      if (lines >= MOST_LINES || (batch.length > 0 && alone)) {
        this.within(0);
        continue;
      }
      batch.push({ job, ...job.inner.told.take(MOST_LINES - lines) });
      lines += batch.at(-1).lines.length;
      if (batch.at(-1).kept < job.inner.told.waiting) this.within(0);
      if (alone) lines = MOST_LINES;
    }
    return batch;
  }

  // Makes a call; an error says that the same lines have to be sent again.
  async #send(batch) {
    const entries = batch.map(({ job, from, lines }) =>
      `{"lease":${JSON.stringify(job.inner.lease)},"from":${from},"lines":[${lines.join(',')}]}`);
    const body = `{"worker":${JSON.stringify(this.#w.name)},"logs":[${entries.join(',')}]}`;
    try {
      const { logs } = await this.#w.call('log', { body, timeout: TELL_TIME });
      let again;
      batch.forEach((entry, i) => {
        const { told } = entry.job.inner;
        const { status, errorCode, detail } = logs[i]?.error ?? {};
        if (status === 429 || status >= 500) {
          again = new TierqError(`log: ${status} ${errorCode}: ${detail}`, { status });
          return;
        }
        if (errorCode === 'LEASE_LOST') told.forget();
        else told.taken(entry);
        this.#alone.delete(entry.job);
      });
      return again;
    } catch (e) {
      if (!(e instanceof TierqError)) throw e;
      if (e.passing || e.status >= 500) return e;
      this.#refused(batch, e);
      return undefined;
    }
  }

  #refused(batch, e) {
    if (batch.length > 1) {
      for (const { job } of batch) this.#alone.add(job);
      return this.within(0);
    }
    const [entry] = batch;
    this.#alone.delete(entry.job);
    this.#w.log.warn(`the server refuses lines of job ${entry.job.id}:`, e.message);
    if (entry.kept > 0) entry.job.inner.told.refused(entry);
    else entry.job.inner.told.taken(entry);
    return undefined;
  }
}

function whole(n) {
  return Math.min(Math.max(Math.trunc(Number(n)) || 0, 0), Number.MAX_SAFE_INTEGER);
}

// Returns the beginning of a text, as UTF-8 of at most so many bytes.
function cut(text, bytes) {
  const whole = Buffer.from(String(text ?? '').toWellFormed());
  if (whole.length <= bytes) return whole.toString();
  while ((whole[bytes] & 0xc0) === 0x80) bytes--; // not within a character
  return whole.toString('utf8', 0, bytes);
}

// Returns the attributes of a line as a JSON object; '' if there are none, they are no JSON, or too many.
function attrsOf(attrs, most) {
  if (attrs === undefined || attrs === null) return '';
  try {
    const json = JSON.stringify(attrs instanceof Error ? { error: attrs } : attrs, (name, value) => {
      if (typeof value === 'bigint' || value instanceof Error) value = String(value);
      return typeof value === 'string' ? value.toWellFormed() : value;
    });
    return json.startsWith('{') && json !== '{}' && Buffer.byteLength(json) <= most ? json : '';
  } catch {
    return '';
  }
}
