// A worker whose handlers misbehave as internal/conformance asks.
import { Later, Permanent, RetryAfter, Worker } from 'tierq';

const starts = {};
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const worker = new Worker(undefined, ['conformance'], { concurrency: 4, drain: 1000 });

// Registers a behaviour; each start is counted and written.
function handle(type, fn) {
  worker.handle(type, (payload, job) => {
    starts[job.id] = (starts[job.id] ?? 0) + 1;
    console.log(`START ${job.id} ${job.attempt}`);
    return fn(payload ?? {}, job);
  });
}

const ended = (job) => new Promise((resolve) => {
  if (job.signal.aborted) resolve();
  job.signal.addEventListener('abort', resolve);
});

function nested(levels) {
  let v = 1;
  for (let i = 0; i < levels; i++) v = [v];
  return v;
}

function cycle() {
  const c = {};
  c.self = c;
  return c;
}

const thrower = { get() { throw new Error('a trap throws'); } };
const hostile = () => new Proxy({}, new Proxy({}, thrower));
function revoked() {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

// What several behaviours hand over.
const values = {
  NAN: () => ({ n: NaN }),
  INFINITE: () => [Infinity],
  CYCLE: cycle,
  BIGINT: () => ({ n: 10n }),
  FUNCTION: () => () => 1,
  SYMBOL: () => Symbol('s'),
  UNDEFINED: () => undefined,
  MARSHALLER_FAILS: () => ({ toJSON() { throw new Error('no text for this'); } }),
  MARSHALLER_PANICS: () => ({ toJSON() { throw null; } }), // eslint-disable-line no-throw-literal
  GETTER_THROWS: () => ({ get a() { throw new Error('a getter throws'); } }),
  PROXY: hostile,
  REVOKED: revoked,
  SURROGATES: () => ({ 'a\ud800b': ['c\udfffd'] }),
  DEEP: () => nested(100_000),
  LEVELS: () => nested(33),
  HUGE: () => 'x'.repeat(20_000),
};

const returns = {
  ...values,
  JSON: () => ({ a: [1, null, 'é'] }),
  THENABLE_THROWS: () => ({ get then() { throw new Error('no then'); } }),
  THENABLE_REJECTS: () => ({ then(_, reject) { reject(null); } }),
  THENABLE_TWICE: () => ({ then(resolve, reject) { resolve('once'); reject(new Error('twice')); resolve('thrice'); } }),
};

const unreadable = (name) => Object.defineProperty(new Error('boom'), name, { get() { throw new Error('hostile'); } });
const withMember = (name, value) => Object.defineProperty(new Error('boom'), name, { value });
class OwnError extends Error {
  name = 'OwnError';
}

const throws = {
  ERROR: () => new Error('boom'),
  OWN: () => new OwnError('boom'),
  EMPTY: () => new Error(''),
  TEXT: () => 'boom',
  NUMBER: () => 42,
  NULL: () => null,
  UNDEFINED: () => undefined,
  FALSE: () => false,
  SYMBOL: () => Symbol('boom'),
  BIGINT: () => 42n,
  FUNCTION: () => () => 1,
  OBJECT: () => ({ code: 42 }),
  NULL_PROTOTYPE: () => Object.create(null),
  PROXY: hostile,
  REVOKED: revoked,
  HUGE: () => new Error('é'.repeat(3_000_000)),
  HUGE_STACK: () => withMember('stack', 'é'.repeat(3_000_000)),
  HUGE_NAME: () => withMember('name', 'é'.repeat(3_000_000)),
  SURROGATES: () => new Error('a\ud800b'),
  TEXT_THROWS: () => unreadable('message'),
  STACK_THROWS: () => unreadable('stack'),
  NAME_THROWS: () => unreadable('name'),
  TEXT_IS_OBJECT: () => withMember('message', Object.create(null)),
  TEXT_IS_SYMBOL: () => withMember('message', Symbol('x')),
  NAME_IS_OBJECT: () => withMember('name', Object.create(null)),
  STACK_IS_NUMBER: () => withMember('stack', 42),
  TO_STRING_THROWS: () => ({ toString() { throw new Error('no text'); } }),
  AGGREGATE: () => new AggregateError([new Error('one')], 'boom'),
  RECURSION: () => {
    const f = () => f() + 1;
    return f();
  },
};

const permanents = {
  TEXT: () => new Permanent('bad'),
  NOTHING: () => new Permanent(),
  NULL: () => new Permanent(null),
  UNDEFINED: () => new Permanent(undefined),
  ERROR: () => new Permanent(new Error('bad')),
  SYMBOL: () => new Permanent(Symbol('bad')),
  HOSTILE: () => new Permanent({ toString() { throw new Error('no text'); } }),
  HUGE: () => new Permanent('é'.repeat(3_000_000)),
};

const spans = {
  SECONDS: (p) => p.seconds, FRACTION: () => 1.2, ZERO: () => 0, NEGATIVE: () => -5, INFINITE: () => Infinity,
  LEAST: () => -Infinity, NAN: () => NaN, NONE: () => null, UNDEFINED: () => undefined, TEXT: () => 'soon',
  OBJECT: () => ({}), BIGINT: () => 5n, SYMBOL: () => Symbol('soon'), NULL_PROTOTYPE: () => Object.create(null),
};

const retries = {
  NOTHING: () => new RetryAfter(5),
  MESSAGE_NULL: () => new RetryAfter(5, null),
  HOSTILE: () => new RetryAfter(5, { toString() { throw new Error('no text'); } }),
};

const laters = {
  REASON: () => new Later(5, 'not yet'),
  REASON_HUGE: () => new Later(5, 'é'.repeat(100_000)),
  REASON_SURROGATES: () => new Later(5, 'a\ud800b'),
  REASON_NUMBER: () => new Later(5, 42),
  REASON_SYMBOL: () => new Later(5, Symbol('x')),
  REASON_OBJECT: () => new Later(5, Object.create(null)),
};

const progresses = {
  NAN: (job) => job.progress(NaN, NaN, 'note'),
  INFINITE: (job) => job.progress(Infinity, -Infinity),
  NEGATIVE: (job) => job.progress(-5, -1),
  FRACTION: (job) => job.progress(1.5, 2.5),
  HUGE: (job) => job.progress(1e300, 2 ** 60),
  NOTHING: (job) => job.progress(),
  TEXT: (job) => job.progress('x', {}, 42),
  BIGINT: (job) => job.progress(5n, 10n, 5n),
  SYMBOL: (job) => job.progress(Symbol('x'), Symbol('y'), Symbol('z')),
  NOTE_HUGE: (job) => job.progress(1, 2, 'é'.repeat(5000)),
  NOTE_SURROGATES: (job) => job.progress(1, 2, 'a\ud800b'),
  NOTE_OBJECT: (job) => job.progress(1, 2, Object.create(null)),
};

const lines = {
  CYCLE: (job) => job.log.info('attrs', cycle()),
  NAN: (job) => job.log.info('attrs', { n: NaN }),
  BIGINT: (job) => job.log.info('attrs', { n: 10n }),
  GETTER: (job) => job.log.info('attrs', values.GETTER_THROWS()),
  PROXY: (job) => job.log.info('attrs', hostile()),
  TO_JSON: (job) => job.log.info('attrs', values.MARSHALLER_PANICS()),
  SURROGATES: (job) => job.log.warn('a\ud800b', { 'k\ud800': 'c\ud800' }),
  HUGE: (job) => job.log.error('é'.repeat(500_000), { more: 'x'.repeat(500_000) }),
  TEXT_SYMBOL: (job) => job.log.info(Symbol('x')),
  TEXT_OBJECT: (job) => job.log.info(Object.create(null)),
  NOTHING: (job) => job.log.info(),
  DEEP: (job) => job.log.info('attrs', { d: nested(100_000) }),
  ATTRS_TEXT: (job) => job.log.info('attrs', 'no object'),
};

const flows = {
  INPUTS: (job) => job.inputs(),
  INPUT_ODD: (job) => job.input('a\ud800b'),
  INPUT_SYMBOL: (job) => job.input(Symbol('x')),
  INPUT_OBJECT: (job) => job.input(Object.create(null)),
  ADD_CYCLE: (job) => job.addToFlow(cycle()),
  ADD_BIGINT: (job) => job.addToFlow({ 'a/b': { type: 'X', payload: 5n } }),
  ADD_NOTHING: (job) => job.addToFlow(),
  ADD_SURROGATES: (job) => job.addToFlow({ 'a/\ud800': { type: 'X' } }),
};

const late = (fn) => async (...args) => (await sleep(10), fn(...args));

async function caught(fn) {
  try {
    await fn();
    return { raised: false, text: '' };
  } catch (e) {
    return { raised: true, text: String(e?.message ?? e) };
  }
}

handle('GOOD', async ({ n, seconds = 0 }, job) => {
  const count = starts[job.id];
  await sleep(1000 * seconds);
  return { good: n, starts: count };
});
handle('ECHO', (payload) => payload);
handle('RETURN', ({ kind }) => returns[kind]?.());
handle('THROW', ({ kind }) => { throw throws[kind](); });
handle('THROW_LATE', late(({ kind }) => { throw throws[kind](); }));
handle('PERMANENT', ({ kind }) => { throw permanents[kind](); });
handle('RETRY_AFTER', (p) => { throw retries[p.kind]?.() ?? new RetryAfter(spans[p.kind](p), 'busy'); });
handle('LATER', (p) => { throw laters[p.kind]?.() ?? new Later(spans[p.kind](p)); });
handle('SAVE', async ({ kind }, job) => {
  const value = values[kind] ? values[kind]() : { step: 1 };
  const said = await caught(() => job.save(value));
  if (kind !== 'REFUSED') await job.save({ last: true });
  return said;
});
handle('PROGRESS', ({ kind }, job) => { progresses[kind](job); return { kind }; });
handle('LOG', ({ kind }, job) => { lines[kind](job); return { kind }; });
handle('FLOW', async ({ kind }, job) => ({ raised: (await caught(() => flows[kind](job))).raised }));
handle('TELL', async ({ seconds }, job) => {
  for (const end = Date.now() + 1000 * seconds; Date.now() < end; await sleep(50)) {
    job.progress(end - Date.now(), 0, 'steps');
  }
});
handle('HOLD', async ({ seconds }, job) => {
  await Promise.race([sleep(1000 * seconds), ended(job)]);
  job.signal.throwIfAborted();
  return { held: true };
});
handle('LIFE', async (_, job) => {
  const begin = performance.now();
  await ended(job);
  const { name, message } = job.signal.reason;
  return { lived: Math.round(performance.now() - begin), ended: Date.now(), cause: `${name}: ${message}` };
});
handle('OVERTIME', async ({ kind }, job) => {
  await ended(job);
  if (kind === 'PERMANENT') throw new Permanent('gave up');
  if (kind === 'LATER') throw new Later(7);
  if (kind === 'CAUSE') throw job.signal.reason;
  throw new Error('gave up');
});
handle('BLOCK', ({ seconds }) => {
  for (const end = Date.now() + 1000 * seconds; Date.now() < end; );
  return { blocked: true };
});
handle('NEVER_END', () => new Promise(() => {}));
handle('EXIT', () => process.exit(7));
handle('ERROR_ELSEWHERE', async () => {
  Promise.reject(new Error('nobody awaits this'));
  await sleep(60_000);
});

try {
  await worker.run();
  console.log('RUN ENDED');
  process.exit(0);
} catch (e) {
  console.log('RUN FAILED:', e.message);
  process.exit(3);
}
