// The worker's side of the thread that makes its claims and heartbeats: see Beater.
import { MessageChannel, Worker as Thread, receiveMessageOnPort } from 'node:worker_threads';
import { claimedOf } from './answers.js';
import { Beater } from './beater.js';
import { clock, pause } from './call.js';
import { TierqError, Unavailable } from './errors.js';

const MOST_STARTS = 3; // of threads that end before they are ready; then the claims are made without a thread
const LOSES = 'a handler that blocks the event loop for as long as the lease loses its job';

export class Beats {
  static program = new URL('./beatthread.js', import.meta.url);

  thread; // undefined without one
  #w;
  #server;
  #program;
  #port;
  #local; // the Beater, without a thread
  #leases = new Map(); // what a thread has to know of them, and the attempt
  #claims = new Map(); // what to do with the answers
  #claimed = 0;
  #read = []; // the leases of answers that were read, which the thread does not know
  #dropped = []; // leases of which the thread does not know that they are no longer held
  #posting; // a message with these will be sent
  #starts = 0; // threads that were started in a row, and have not become ready
  #failures = 0; // threads that ended since a heartbeat or a claim was answered
  #ready;
  #stopped = false;

  // server is {url, key}, program the one of the thread; without one there is no thread.
  constructor(worker, server, program) {
    this.#w = worker;
    this.#program = program;
    this.#server = server;
  }

  start() {
    return new Promise((resolve) => {
      this.#ready = resolve;
      this.#launch();
    });
  }

  async stop() {
    this.#stopped = true;
    this.#local?.stop();
    this.#port?.close();
    await this.thread?.terminate();
  }

  // Makes a claim. Its answer comes as {answer, jobs, unreadable, base}: see claimedOf.
  claim(body, timeout, signal) {
    const id = ++this.#claimed;
    return new Promise((resolve, reject) => {
      const abort = () => this.#post({ asked: 'abort', id });
      this.#claims.set(id, (error, answer) => {
        this.#claims.delete(id);
        signal?.removeEventListener('abort', abort);
        if (error) reject(error);
        else resolve(answer);
      });
      this.#post({ asked: 'claim', id, body, timeout });
      if (signal?.aborted) abort();
      signal?.addEventListener('abort', abort);
    });
  }

  // Tells an attempt what the heartbeats of its lease are answered.
  listen(attempt) {
    const held = this.#leases.get(attempt.lease);
    if (!held) return;
    held.attempt = attempt;
    for (const said of held.early ?? []) attempt.hear(said);
    held.early = undefined;
  }

  // Ends the heartbeats of a lease.
  drop(lease) {
    if (!this.#leases.delete(lease)) return;
    this.#dropped.push(lease);
    this.#postSoon();
  }

  save(lease, save, checkpoint) {
    this.#untold(lease, 'save', { save, checkpoint });
  }

  // Takes a progress; now: the attempt's report waits for it.
  progress(lease, step, progress, now) {
    this.#untold(lease, 'progress', { step, progress, now });
  }

  // Sends a progress that waits without delay.
  hurry(lease) {
    const { step, progress } = this.#leases.get(lease) ?? {};
    if (progress !== undefined) this.progress(lease, step, progress, true);
  }

  // Takes the messages that the thread has sent up to now.
  drain() {
    for (let got; this.#port && (got = receiveMessageOnPort(this.#port)); ) this.#take(got.message);
  }

  #untold(lease, asked, more) {
    const held = this.#leases.get(lease);
    if (!held) return;
    Object.assign(held, more);
    this.#post({ asked, lease, ...more });
  }

  // Sends a message, with what waits for one.
  #post(message) {
    clearImmediate(this.#posting);
    this.#posting = undefined;
    this.#port?.postMessage({ ...message, read: this.#read, dropped: this.#dropped });
    this.#read = [];
    this.#dropped = [];
  }

  // Sends what waits at the end of this turn of the event loop, if no message takes it along before. A message for each
  // job would be dear.
  #postSoon() {
    this.#posting ??= setImmediate(() => this.#post({}));
  }

  #launch() {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    port1.on('message', (message) => this.#take(message));
    port1.unref();
    const data = { ...this.#server, name: this.#w.name, port: port2 };
    if (this.#program && this.#starts++ < MOST_STARTS) {
      this.#begin(data);
    } else {
      if (this.#program) this.#w.log.warn(`no thread can be started: ${LOSES}`);
      this.#local = new Beater(data);
      this.#local.run();
    }
    for (const [lease, { every, beatAt, save, checkpoint, step, progress, now }] of this.#leases) {
      this.#post({ asked: 'keep', lease, every, beatAt, save, checkpoint, step, progress, now });
    }
  }

  #begin(data) {
    try {
      const thread = new Thread(this.#program, {
        workerData: data, transferList: [data.port], execArgv: [], name: 'tierq',
      });
      this.thread = thread;
      thread.unref();
      let why = 'it ended';
      thread.on('error', (e) => (why = e.message));
      thread.on('exit', () => this.#ended(why));
    } catch (e) {
      this.#ended(e.message);
    }
  }

  // Starts another thread in place of one that has ended.
  #ended(why) {
    this.thread = undefined;
    if (this.#stopped) return;
    this.drain();
    this.#port = undefined;
    this.#w.log.warn('the thread of the heartbeats is started again:', why);
    const error = new Unavailable(`claim: the thread of the heartbeats ended: ${why}`);
    for (const done of [...this.#claims.values()]) done(error);
    const wait = this.#failures++ === 0 ? 0 : Math.min(pause(this.#failures, error), 1000);
    setTimeout(() => this.#stopped || this.#launch(), wait);
  }

  #take(message) {
    const { told } = message;
    if (told === 'ready') this.#began();
    else if (told === 'claimed') this.#hearClaim(message);
    else if (told === 'failed') {
      this.#w.log.warn(`a heartbeat of ${message.jobs} jobs was not answered:`, message.message);
    } else if (told === 'beat') {
      this.#failures = 0;
      for (const said of message.leases) this.#hear(said);
      this.#w.heard(message.state);
    }
  }

  #began() {
    this.#starts = 0;
    this.#ready();
  }

  #hearClaim({ id, error, ...said }) {
    const done = this.#claims.get(id);
    if (error) return done?.(error.status ? new TierqError(error.message, error) : new Unavailable(error.message));
    try {
      const claimed = claimedOf(said);
      this.#failures = 0;
      this.#keep(id, claimed);
      return done?.(undefined, claimed);
    } catch (e) {
      return done?.(e);
    }
  }

  // Holds the leases of a claim, and lets the thread know them.
  #keep(id, { jobs, base }) {
    const beatAt = clock();
    const read = { id, base, leases: [], everys: [] };
    for (const { lease, heartbeatEveryMs: every } of jobs) {
      if (!this.#leases.has(lease)) this.#leases.set(lease, { every, beatAt });
      read.leases.push(lease);
      read.everys.push(every);
    }
    this.#read.push(read);
    this.#postSoon();
  }

  #hear({ lease, ...said }) {
    const held = this.#leases.get(lease);
    if (!held) return;
    if (said.word === 'LOST') this.#leases.delete(lease);
    if (said.save && held.save === said.save) held.checkpoint = undefined;
    if (said.step && held.step === said.step) held.progress = held.now = undefined;
    if (held.attempt) held.attempt.hear(said);
    else (held.early ??= []).push(said);
  }
}
