// One call to a server.
import { TierqError, Unavailable } from './errors.js';

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
  async call(verb, { method = 'POST', path = `/api/worker/${verb}`, body, headers, timeout, signal }) {
    const limit = AbortSignal.timeout(timeout);
    let answer, text;
    try {
      answer = await fetch(this.base + path, {
        method, body, headers: { ...this.headers, ...headers }, redirect: 'manual',
        signal: signal ? AbortSignal.any([signal, limit]) : limit,
      });
      text = await answer.text();
    } catch (e) {
      throw new Unavailable(`${verb}: ${e.cause?.message || e.message}`);
    }
    if (answer.status === 204) return undefined;
    if (answer.ok) {
      try {
        return JSON.parse(text);
      } catch {
        throw new Unavailable(`${verb}: the answer is not understood`);
      }
    }
    let said = {};
    try {
      said = JSON.parse(text) ?? {};
    } catch {
      // not tierq's
    }
    const { errorCode: code = '', detail = code ? '' : "the answer is not tierq's", jobId, errors } = said;
    const after = Number(answer.headers.get('Retry-After'));
    throw new TierqError(`${verb}: ${answer.status} ${code}: ${detail}`, {
      status: answer.status, code, detail, jobId, errors, retryAfter: after > 0 ? Math.min(after, 3600) : 0,
    });
  }
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
    const timer = setTimeout(done, ms);
    signal?.addEventListener('abort', done);
  });
}
