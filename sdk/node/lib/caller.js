// Makes the calls of a client: each is tried until it is answered, or its tries are used up.
import { Server, isObject, notUnderstood, pause, rest } from './call.js';
import { OutcomeUnknown, TierqError, Unavailable } from './errors.js';
import { tried } from './text.js';

export const ask = Symbol('ask'); // the method of a Caller that makes a call
export const once = Symbol('once'); // the method that makes one try of a call, whose body is JSON
export const retries = Symbol('retries'); // how often a call is tried, and the waits between
export const pages = Symbol('pages'); // the method that reads a list page by page

export class Caller {
  #server;
  #timeout;
  #tries;
  #pause;

  constructor(url, { key = process.env.TIERQ_KEY, timeout = 30_000, tries = 6, pause: wait = pause } = {}) {
    this.#server = new Server(url ?? process.env.TIERQ_URL ?? 'http://127.0.0.1:8080', key);
    this.#timeout = timeout;
    this.#tries = Math.max(tries, 1);
    this.#pause = wait;
  }

  // Makes a call, which changes something if it says changes. With once a repeat would be misunderstood, so there is no
  // other try after a lost answer. For hold ms the server may hold its answer.
  // has says whether an answer is understood; one that is not counts as lost.
  async [ask](verb, { body, changes = false, once: single = false, hold = 0, has, ...options }) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    for (let made = 1, unknown = false, jobId; ; made++) {
      try {
        const answer = await this[once](verb, { ...options, body: text, hold });
        if (isObject(answer) ? !has || tried(() => has(answer)) : answer === undefined && !has) return answer;
        throw notUnderstood(verb);
      } catch (e) {
        if (!(e instanceof TierqError)) throw e;
        options.signal?.throwIfAborted();
        // What an earlier try may have done is not undone by the refusal of this one.
        unknown ||= changes && (e.status === 0 || (e.status >= 500 && e.status !== 501 && e.status !== 503));
        jobId = e.jobId ?? jobId;
        if (!e.passing || made === this.#tries || (single && unknown)) {
          const Kind = unknown ? OutcomeUnknown : e.passing ? Unavailable : TierqError;
          throw new Kind(e.message, { ...e, jobId });
        }
        await rest(this.#pause(made + 1, e), options.signal);
      }
    }
  }

  // Makes one try of a call.
  [once](verb, { hold = 0, ...options }) {
    return this.#server.call(verb, { ...options, timeout: this.#timeout + hold });
  }

  get [retries]() {
    return { tries: this.#tries, pause: this.#pause };
  }

  // Yields the items of a list, page by page.
  async *[pages](verb, path, asked) {
    for (let cursor; ; ) {
      const page = await this[ask](verb, {
        method: 'GET', path: `${path}${queryOf({ ...asked, cursor })}`, has: ({ items }) => Array.isArray(items),
      });
      yield* page.items;
      if (!page.next || page.next === cursor) return;
      cursor = page.next;
    }
  }
}

// Returns the query of an address; what is undefined is left out.
export function queryOf(asked) {
  const query = new URLSearchParams(Object.entries(asked).filter(([, value]) => value !== undefined)).toString();
  return query && `?${query}`;
}

// Asks for a state again and again, every two seconds at most, until done accepts it.
export async function until(what, { timeout = Infinity, signal }, look, done) {
  const end = performance.now() + timeout;
  for (let wait = 100; ; wait = Math.min(2 * wait, 2000)) {
    signal?.throwIfAborted();
    const state = await look();
    if (done(state)) return state;
    const left = end - performance.now();
    if (left <= 0) throw new DOMException(`${what} has not ended within ${timeout} ms`, 'TimeoutError');
    await rest(Math.min(wait, left), signal);
  }
}
