// Keeps the leases of a worker: makes its claims and its heartbeats. It runs in a thread of its own, so that a handler
// that blocks the event loop loses no lease, and talks with the worker over a port: see Beats.
import { claimedOf } from './answers.js';
import {
  Server, baseOf, clock, isAmount, isObject, isRefusal, notUnderstood, pause, problemOf, rest,
} from './call.js';
import { TierqError } from './errors.js';
import { CALL_TIME, MOST_BYTES } from './limits.js';
import { tried } from './text.js';

const MOST_BEATS = 1000;
const TOLD_EVERY = 1000; // ms between two heartbeats that are sent because of a progress
const LEAST_EVERY = 50; // ms between the heartbeats of a lease
const READ_TIME = 50; // ms for the worker to read an answer to a claim; then its event loop is blocked
const WORDS = ['OK', 'CANCEL', 'LOST'];

export class Beater {
  #server;
  #name;
  #port;
  #leases = new Map();
  #claims = new Map(); // the AbortControllers of claims under way
  #unread = new Map(); // the timers of answers that the worker has not read, by claim
  #stopped = false;
  #toldAt = -Infinity; // when the last heartbeat with a progress was sent
  #waitsFor = 0; // the time of the next heartbeat
  #wake = () => {};

  constructor({ url, key, name, port }) {
    this.#server = new Server(url, key);
    this.#name = name;
    this.#port = port;
    port.on('message', (asked) => this.#take(asked));
    port.postMessage({ told: 'ready' });
  }

  stop() {
    this.#stopped = true;
    this.#port.close();
    this.#wake();
  }

  // Sends heartbeats until stop: with the first lease whose one is due go all whose ones will be due soon.
  async run() {
    for (let failures = 0; !this.#stopped; ) {
      this.#waitsFor = Infinity;
      for (const held of this.#leases.values()) this.#waitsFor = Math.min(this.#waitsFor, this.#dueAt(held));
      const wait = this.#waitsFor - clock();
      if (wait > 0) {
        await new Promise((resolve) => {
          const timer = setTimeout(resolve, Math.min(wait, 60_000));
          this.#wake = () => (clearTimeout(timer), resolve());
        });
        continue;
      }
      const batch = this.#batch(clock());
      const error = await this.#send(batch);
      failures = error ? failures + 1 : 0;
      if (!error || this.#stopped) continue;
      this.#tell({ told: 'failed', jobs: batch.length, message: error.message });
      await rest(Math.min(pause(failures, error), 1000)); // the leases do not wait for longer
    }
  }

  #tell(message) {
    if (!this.#stopped) this.#port.postMessage(message);
  }

  // Takes what the worker asks, after what it has read and dropped before.
  #take({ read, dropped, asked, lease, ...more }) {
    for (const claim of read) this.#hasRead(claim);
    for (const lost of dropped) this.#leases.delete(lost);
    if (asked === 'claim') this.#claim(more);
    else if (asked === 'abort') this.#claims.get(more.id)?.abort();
    else if (asked === 'keep') this.#keep(lease, more);
    else if (asked === 'save' || asked === 'progress') this.#change(this.#leases.get(lease), more);
  }

  #change(held, more) {
    if (held) this.#dueBy(Object.assign(held, more));
  }

  // Wakes the loop if a lease's heartbeat is due before the one that it waits for.
  #dueBy(held) {
    if (this.#dueAt(held) < this.#waitsFor) this.#wake();
  }

  // Takes over a lease: {every, beatAt}, and what the worker before this one has not told the server.
  #keep(lease, { every, beatAt, ...untold }) {
    if (this.#leases.has(lease)) return;
    const held = { lease, every: Math.max(every, LEAST_EVERY), beatAt, ...untold };
    this.#leases.set(lease, held);
    this.#dueBy(held);
  }

  // The worker has read an answer, and says which leases came.
  #hasRead({ id, base, leases, everys }) {
    clearTimeout(this.#unread.get(id));
    if (!this.#unread.delete(id)) return;
    leases.forEach((lease, i) => this.#keep(lease, { every: everys[i], beatAt: base + everys[i] }));
  }

  // Reads an answer in place of the worker, which does not come to it.
  #readAlone(id, said) {
    this.#unread.delete(id);
    const claimed = tried(() => claimedOf(said));
    for (const { lease, heartbeatEveryMs: every } of claimed?.jobs ?? []) {
      this.#keep(lease, { every, beatAt: claimed.base + every });
    }
  }

  async #claim({ id, body, timeout }) {
    const aborter = new AbortController();
    this.#claims.set(id, aborter);
    const sent = clock();
    try {
      const text = await this.#server.text('claim', { body, timeout, signal: aborter.signal });
      const said = { text, sent, received: clock() };
      this.#unread.set(id, setTimeout(() => this.#readAlone(id, said), READ_TIME).unref());
      this.#tell({ told: 'claimed', id, ...said });
    } catch (e) {
      this.#tell({ told: 'claimed', id, error: { ...e, message: e.message } });
    }
    this.#claims.delete(id);
  }

  // A checkpoint goes at once, a progress within a second. What was refused in company waits until the lease was
  // extended without it, and then goes alone.
  #dueAt(held) {
    const { beatAt, checkpoint, progress, now, apart, notBefore = 0 } = held;
    if (apart === 'bare') return Math.max(beatAt, notBefore);
    const progressAt = progress === undefined ? Infinity : now ? 0 : this.#toldAt + TOLD_EVERY;
    return Math.max(Math.min(beatAt, checkpoint === undefined ? Infinity : 0, progressAt), notBefore);
  }

  // Returns the entries of one heartbeat.
  #batch(now) {
    const batch = [];
    let size = 0;
    const due = [...this.#leases.values()].filter((l) => this.#dueAt(l) <= now);
    const alone = due.find((l) => l.apart === 'alone');
    if (alone && alone.beatAt > now && due.every((l) => l.apart === 'alone')) return [this.#entry(alone, true)];
    for (const held of this.#leases.values()) {
      const soon = held.beatAt - now <= held.every / 2 && (held.notBefore ?? 0) <= now;
      if (!soon && (held.apart || this.#dueAt(held) > now)) continue;
      if (batch.length === MOST_BEATS || size > MOST_BYTES) break;
      batch.push(this.#entry(held, !held.apart));
      size += batch.at(-1).text.length;
    }
    return batch;
  }

  // Returns the entry of a lease, with what the server has to be told of the job, or without it.
  #entry(held, whole) {
    const { lease, apart } = held;
    const save = whole && held.checkpoint !== undefined ? held.save : 0;
    const step = whole && held.progress !== undefined && !(apart && save) ? held.step : 0;
    const text = `{"lease":${JSON.stringify(lease)}${save ? `,"save":${save},"checkpoint":${held.checkpoint}` : ''}` +
      `${step ? `,"progress":${held.progress}` : ''}}`;
    return { held, save, step, text };
  }

  // Makes a call. The error says why some lease was not extended.
  async #send(batch) {
    const sent = clock();
    if (batch.some(({ step }) => step)) this.#toldAt = sent;
    const body = `{"worker":${JSON.stringify(this.#name)},"leases":[${batch.map((b) => b.text).join(',')}]}`;
    const timeout = Math.max(Math.min(CALL_TIME, ...batch.map((b) => b.held.every)), 1000);
    let answer;
    try {
      answer = await this.#server.call('heartbeat', { body, timeout });
      if (!isObject(answer)) throw notUnderstood('heartbeat');
    } catch (e) {
      if (isRefusal(e)) return this.#refused(batch, e);
      return e;
    }
    const base = baseOf(answer, sent, clock());
    const answers = Array.isArray(answer.leases) ? answer.leases : [];
    const said = batch.map((entry, i) => this.#hear(entry, answers[i], base));
    this.#tell({ told: 'beat', state: answer.state, leases: said.filter(Boolean) });
    return said.every(Boolean) ? undefined : new TierqError('heartbeat: the answer lacks leases');
  }

  // Takes the answer about a lease, and returns what the worker has to know; undefined if there is no answer.
  #hear({ held, save, step }, answer, base) {
    const { word, leaseForMs } = isObject(answer) ? answer : {};
    if (!WORDS.includes(word) || (word !== 'LOST' && !isAmount(leaseForMs))) {
      held.notBefore = clock() + 100;
      return undefined;
    }
    if (word === 'LOST') {
      this.#leases.delete(held.lease);
      return { lease: held.lease, word };
    }
    held.beatAt = base + held.every;
    const said = { lease: held.lease, word, until: base + leaseForMs };
    if (answer.error) return this.#untaken(held, { save, step }, answer.error, said);
    this.#took(held, save, step);
    if (held.apart && !save && !step) held.apart = 'alone';
    if (held.checkpoint === undefined && held.progress === undefined) held.apart = undefined;
    return { ...said, save, step };
  }

  // The lease was extended, but the server did not take what came with it. If that was a checkpoint and a progress,
  // each goes alone from here.
  #untaken(held, { save, step }, error, said) {
    const { errorCode: code, ...problem } = problemOf(error);
    if (problem.status === 429 || problem.status >= 500) {
      held.notBefore = clock() + 1000;
      return said;
    }
    if (save && step) {
      held.apart = 'alone';
      return said;
    }
    this.#took(held, save, step);
    const message = `heartbeat: ${problem.status} ${code}: ${problem.detail}`;
    return { ...said, save, step, error: { ...problem, code, message } };
  }

  #took(held, save, step) {
    if (save && held.save === save) held.checkpoint = undefined;
    if (step && held.step === step) held.progress = held.now = undefined;
  }

  // The whole call was refused. An entry that was alone is why; of others the leases are extended first.
  #refused(batch, e) {
    const told = batch.filter(({ save, step }) => save || step);
    if (batch.length === 1 && batch[0].held.apart === 'alone' && told.length === 1) {
      const [{ held, save, step }] = told;
      this.#took(held, save, step);
      this.#tell({ told: 'beat', leases: [{ lease: held.lease, save, step, error: { ...e, message: e.message } }] });
      return undefined;
    }
    for (const { held } of told) {
      held.apart = 'bare';
      held.beatAt = 0;
    }
    if (told.length > 0) this.#tell({ told: 'failed', jobs: batch.length, message: e.message });
    return told.length > 0 ? undefined : e;
  }
}
