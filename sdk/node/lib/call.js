// One call to a server.
import { TierqError, Unavailable } from './errors.js';
import { textOf, tried } from './text.js';

export const MOST_TIMER = 2 ** 31 - 1; // ms; a longer timer of Node fires at once

// Returns the time in ms. The clock is the same in all threads of the process.
export const clock = () => Number(process.hrtime.bigint()) / 1e6;

export class Server {
  constructor(url, key) {
    const base = new URL(url);
    if (base.protocol !== 'http:' && base.protocol !== 'https:') {
      throw new TypeError("the server's address is not http://host or https://host");
    }
    this.base = base.href.replace(/\/$/, '');
    this.headers = { 'Content-Type': 'application/json', 'User-Agent': 'tierq-node' };
    if (key) this.headers.Authorization = `Bearer ${key}`;
  }

  // Returns the JSON of the answer, undefined if it has none. The error is a TierqError; without an answer it is an
  // Unavailable.
  async call(verb, options) {
    const text = await this.text(verb, options);
    return text === undefined ? undefined : parsed(verb, text);
  }

  // Returns the answer as a text, and fails as call does.
  async text(verb, { method = 'POST', path = `/api/worker/${verb}`, body, headers, timeout, signal }) {
    const limit = AbortSignal.timeout(Math.min(timeout, MOST_TIMER));
    let answer, text;
    try {
      answer = await fetch(this.base + path, {
        method, body, headers: { ...this.headers, ...headers }, redirect: 'manual',
        signal: signal ? AbortSignal.any([signal, limit]) : limit,
      });
      text = await answer.text();
    } catch (e) {
      throw new Unavailable(`${verb}: ${tried(() => e.cause?.message || e.message) ?? textOf(e)}`);
    }
    if (answer.status === 204) return undefined;
    if (answer.ok) return text;
    const { errorCode: code, detail, jobId, errors } = problemOf(tried(() => JSON.parse(text)));
    const after = Number(answer.headers.get('Retry-After'));
    throw new TierqError(`${verb}: ${answer.status} ${code}: ${detail}`, {
      status: answer.status, code, detail, jobId, errors, retryAfter: after > 0 ? Math.min(after, 3600) : 0,
    });
  }
}

// Returns the JSON of an answer's text.
export function parsed(verb, text) {
  try {
    return JSON.parse(text);
  } catch {
    throw notUnderstood(verb);
  }
}

export const notUnderstood = (verb) => new Unavailable(`${verb}: the answer is not understood`);

export const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

// Whether a value is what a server's number of ms can be.
export const isAmount = (value) => typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER;

// Whether an error says that the same call will be refused again. A redirect, which is none of tierq's, does not.
export const isRefusal = (e) => !e.passing && e.status >= 400 && e.status < 500;

// Returns the fields of a problem body, of the types that they must have.
export function problemOf(said) {
  const { status, errorCode, detail, jobId, errors } = isObject(said) ? said : {};
  const code = typeof errorCode === 'string' ? errorCode : '';
  return {
    status: Number.isInteger(status) ? status : 0,
    errorCode: code,
    detail: typeof detail === 'string' ? detail : code ? '' : "the answer is not tierq's",
    jobId: typeof jobId === 'string' ? jobId : undefined,
    errors: Array.isArray(errors) ? errors : undefined,
  };
}

// Returns the time from which the durations of an answer count: the call was sent, and the server held its answer.
export function baseOf(answer, sent, received) {
  return sent + (isAmount(answer.heldMs) ? Math.min(answer.heldMs, received - sent) : 0);
}

// Returns the wait in ms after some failures in a row: 100 ms, doubling to 5 s, of which a random half is left out.
export function pause(failures, error) {
  const bound = Math.min(100 * 2 ** Math.min(failures - 1, 10), 5000);
  return Math.min(bound / 2 + (Math.random() * bound) / 2 + 1000 * error.retryAfter, 60_000);
}

// Waits, at most until a signal is aborted.
export function rest(ms, signal) {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, Math.min(ms, MOST_TIMER));
    signal?.addEventListener('abort', done);
  });
}
