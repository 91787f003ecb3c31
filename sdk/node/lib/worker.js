// Runs the jobs of a server in this program.
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { Core } from './core.js';

const SIGNALS = ['SIGTERM', 'SIGINT'];

export class Worker {
  #core;
  #begun = false;

  constructor(url, queues, options = {}) {
    const {
      key = process.env.TIERQ_KEY, concurrency = 10, tiers, lease, drain = 25_000, name = ownName(), version,
      log = console, thread = true,
    } = options;
    if (version !== undefined && !/^[ -~]{1,64}$/.test(version)) {
      throw new TypeError('the version must be 1 to 64 visible ASCII characters');
    }
    if (!isNames(queues)) throw new TypeError('queues must name one queue or more');
    if (tiers !== undefined && !isNames(tiers)) throw new TypeError('tiers must name one tier or more');
    if (!(Number.isInteger(concurrency) && concurrency >= 1 && concurrency <= 1000)) {
      throw new RangeError('concurrency must be a whole number from 1 to 1000');
    }
    if (lease !== undefined && !(lease >= 5 && lease <= 3600)) throw new RangeError('lease must be 5 to 3600 seconds');
    if (!(drain >= 0)) throw new RangeError('drain must be a number of ms');
    if (!/^[A-Za-z0-9._-]{1,64}$/.test(name)) throw new TypeError('the name must be 1 to 64 of A-Z a-z 0-9 . _ -');
    Object.defineProperty(this, 'name', { value: name, enumerable: true });
    this.#core = new Core({
      url: String(url ?? process.env.TIERQ_URL ?? 'http://127.0.0.1:8080'), key, name, log, places: concurrency, drain,
      queues: [...queues], tiers, lease, version, thread,
    });
  }

  handle(type, fn) {
    if (typeof type !== 'string') throw new TypeError('the type of a handler must be a string');
    if (typeof fn !== 'function') throw new TypeError(`the handler of ${type} is no function`);
    if (this.#core.handlers.has(type)) throw new TypeError(`the type ${type} has two handlers`);
    this.#core.handlers.set(type, fn);
    return this;
  }

  stop() {
    this.#core.stop();
  }

  async run({ signals = true } = {}) {
    if (this.#core.handlers.size === 0) throw new Error('the worker has no handler');
    if (this.#begun) throw new Error('the worker was run before');
    this.#begun = true;
    const stop = () => this.stop();
    if (signals) for (const s of SIGNALS) process.on(s, stop);
    try {
      await this.#core.run();
    } finally {
      if (signals) for (const s of SIGNALS) process.off(s, stop);
    }
  }
}

const isNames = (list) => Array.isArray(list) && list.length > 0 && list.every((name) => typeof name === 'string');

function ownName() {
  const host = hostname().slice(0, 40).replace(/[^A-Za-z0-9._-]/g, '-') || 'host';
  return `${host}-${process.pid}-${randomBytes(3).toString('hex')}`;
}
