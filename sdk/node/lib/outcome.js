// What a worker reports of how a handler ended.
import { Later, LeaseLost, MaxTime, Permanent, RetryAfter, Stopping, UnknownType } from './errors.js';
import { cut, jsonOf, memberOf, messageOf, textOf, tried } from './text.js';

const MOST_TEXT = 4096; // bytes of a member of an error
const MOST_REASON = 512; // bytes
const MOST_RESULT = 64 << 20; // of JSON; the server's own bound is lower
const MOST_WAIT = 86_400; // seconds
const MOST_DELAY = 31_536_000; // seconds

// Returns the report of an attempt, {text, kind, message, permanent}, text being its JSON. The attempt ended with a
// result, or threw something. It never throws, whatever the handler's values do.
export function reportOf({ lease, cause }, { result, threw = false, error }) {
  if (!threw) {
    try {
      const json = resultOf(result);
      return { text: `{"lease":${JSON.stringify(lease)},"completed":{"result":${json}}}`, kind: 'completed' };
    } catch (e) {
      return failure(lease, { message: `result: ${messageOf(e) || textOf(e)}` }, { permanent: true });
    }
  }
  return ended(lease, cause, error);
}

// Returns the report that stands in for one that the server refused. Each attempt would end with a result that is
// refused, because it is too large for example; the job of any other report keeps its retries.
export function standIn(lease, refused, why) {
  const reason = cut(`the server refused the report: ${why}`, MOST_TEXT / 2);
  if (refused.kind === 'completed') return failure(lease, { message: reason }, { permanent: true });
  const before = refused.message ? `${cut(refused.message, MOST_TEXT / 2 - 2)}; ` : '';
  return failure(lease, { message: before + reason }, refused.permanent ? { permanent: true } : {});
}

function resultOf(result) {
  if (typeof result === 'function' || typeof result === 'symbol') throw new TypeError(`a ${typeof result} is no JSON`);
  const json = jsonOf(result) ?? 'null';
  if (json.length > MOST_RESULT) throw new RangeError(`its JSON has more than ${MOST_RESULT} bytes`);
  return json;
}

function ended(lease, cause, error) {
  const is = (Kind) => tried(() => error instanceof Kind) ?? false;
  if (is(Later)) return later(lease, error);
  const said = failureOf(error);
  if (is(Permanent)) return failure(lease, { message: said.message }, { permanent: true });
  if (cause instanceof Stopping || cause instanceof LeaseLost) {
    return released(lease, {}, said.message); // the worker disturbed the handler, which must not cost a retry
  }
  const type = cause instanceof MaxTime ? 'MAX_TIME_EXCEEDED' : is(UnknownType) ? 'UNKNOWN_JOB_TYPE' : undefined;
  if (is(RetryAfter)) return retry(lease, { message: said.message, type }, tried(() => error.seconds));
  if (is(UnknownType)) return failure(lease, { message: said.message, type });
  return failure(lease, { ...said, type: type ?? said.type });
}

function later(lease, error) {
  const seconds = tried(() => error.seconds);
  const delaySeconds = within(seconds, 1, MOST_DELAY);
  if (delaySeconds === undefined) {
    return failure(lease, { message: `later: wants a number of seconds, got ${textOf(seconds)}`, type: 'Later' });
  }
  const reason = cut(memberOf(error, 'message') ?? '', MOST_REASON);
  return released(lease, { delaySeconds, reason: reason || undefined }, reason);
}

function retry(lease, { message, type }, seconds) {
  const retryAfterSeconds = within(seconds, 0, MOST_WAIT);
  if (retryAfterSeconds !== undefined) return failure(lease, { message, type }, { retryAfterSeconds });
  const why = `retry after: wants a number of seconds, got ${cut(textOf(seconds), 100)}`;
  return failure(lease, { message: `${cut(message, MOST_TEXT - Buffer.byteLength(why) - 3)} (${why})`, type });
}

// Returns a wait in whole seconds; undefined for what is no number.
function within(seconds, least, most) {
  if (typeof seconds !== 'number' || Number.isNaN(seconds)) return undefined;
  return Math.min(Math.max(Math.ceil(seconds), least), most);
}

function released(lease, members, message) {
  return { text: JSON.stringify({ lease, released: members }), kind: 'released', message };
}

function failure(lease, { message, type, stack }, members = {}) {
  const error = { message: cut(message, MOST_TEXT), type: type && cut(type, MOST_TEXT), stack: stack && cut(stack,
    MOST_TEXT) };
  const { permanent = false } = members;
  return { text: JSON.stringify({ lease, failed: { error, ...members } }), kind: 'failed', message, permanent };
}

// Returns the members of an error that was thrown, as far as it can be read.
function failureOf(thrown) {
  if (typeof thrown === 'string' && thrown) return { message: thrown };
  const message = memberOf(thrown, 'message') || `the handler threw ${textOf(thrown) || 'an empty text'}`;
  return { message, type: typeOf(thrown), stack: memberOf(thrown, 'stack') };
}

function typeOf(thrown) {
  const name = memberOf(thrown, 'name');
  if (name) return name;
  const made = tried(() => thrown.constructor.name);
  return typeof made === 'string' && made !== '' && made !== 'Object' && typeof thrown === 'object' ? made : undefined;
}
