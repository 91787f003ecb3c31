// Makes the calls of a client: each is tried until it is answered, or its tries are used up.
import { Server, pause, rest } from './call.js';
import { OutcomeUnknown, TierqError, Unavailable } from './errors.js';

export const ask = Symbol('ask'); // the method of a Caller that makes a call
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
  async [ask](verb, { body, changes = false, once = false, hold = 0, ...options }) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    for (let made = 1, unknown = false, jobId; ; made++) {
      try {
        return await this.#server.call(verb, { ...options, body: text, timeout: this.#timeout + hold });
      } catch (e) {
        if (!(e instanceof TierqError)) throw e;
        options.signal?.throwIfAborted();
        // What an earlier try may have done is not undone by the refusal of this one.
        unknown ||= changes && (e.status === 0 || (e.status >= 500 && e.status !== 501 && e.status !== 503));
        jobId = e.jobId ?? jobId;
        if (!e.passing || made === this.#tries || (once && unknown)) {
          const Kind = unknown ? OutcomeUnknown : e.passing ? Unavailable : TierqError;
          throw new Kind(e.message, { ...e, jobId });
        }
        await rest(this.#pause(made + 1, e), options.signal);
      }
    }
  }

  // Yields the items of a list, page by page.
  async *[pages](verb, path, asked) {
    for (let cursor; ; ) {
      const page = await this[ask](verb, { method: 'GET', path: `${path}${queryOf({ ...asked, cursor })}` });
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
