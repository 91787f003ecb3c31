// Runs workers in tests.
import { Worker } from '../index.js';

export const silent = { info() {}, warn() {}, error() {} };

// Runs a worker until the test ends; it returns a function that stops it at once.
export function start(fake, handlers, options) {
  const worker = new Worker(fake.url, ['pictures'], { log: silent, drain: 500, ...options });
  for (const [type, fn] of Object.entries(handlers)) worker.handle(type, fn);
  const ended = worker.run({ signals: false });
  const stop = Object.assign(() => (worker.stop(), ended), { ended });
  fake.stops.push(stop);
  return stop;
}

// Returns a logger and the lines that it was given.
export function logger() {
  const lines = [];
  const line = (...words) => lines.push(words.join(' '));
  return { lines, log: { info: line, warn: line, error: line } };
}

// A handler that ends when it should, with the reason.
export const ends = (payload, { signal }) => new Promise((_, reject) => {
  if (signal.aborted) reject(signal.reason);
  signal.addEventListener('abort', () => reject(signal.reason));
});
