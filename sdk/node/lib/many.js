// Submits many jobs, in as few calls as they fit into.
import { randomUUID } from 'node:crypto';
import { notUnderstood, pause as pauseOf, rest } from './call.js';
import { OutcomeUnknown, TierqError, Unavailable } from './errors.js';

const MOST_ENTRIES = 1000; // of a call
const MOST_BYTES = 15 << 20; // of a call; the server takes 16 MiB

// The statuses that the same submit alone would be answered with.
const STATUS = {
  INVALID_REQUEST: 400, FORBIDDEN: 403, BATCH_NOT_FOUND: 404, UNIQUE_TAKEN: 409, BATCH_SEALED: 409,
  PAYLOAD_TOO_LARGE: 413, INVALID_PAYLOAD: 422, UNKNOWN_JOB_TYPE: 422, UNKNOWN_QUEUE: 422, IDEMPOTENCY_MISMATCH: 422,
  RATE_LIMITED: 429, INTERNAL: 500, SYSTEM_UNHEALTHY: 503, QUEUE_FULL: 503, OUTCOME_UNKNOWN: 504,
};

// Returns for each submit the id of its job or its error. send makes one call with the JSON of some submits. A submit
// that is refused for now, or whose answer was lost, is sent again with the same key, as a submit alone is.
export async function submitAll(bodies, send, { tries, pause = pauseOf }) {
  const entries = bodies.map(({ idempotencyKey = randomUUID(), ...body }) => ({
    text: JSON.stringify({ ...body, idempotencyKey }), made: 0, unknown: false, answer: undefined,
  }));
  for (let most = MOST_ENTRIES, round = 1, left = entries; left.length > 0; left = entries.filter(unanswered)) {
    let failed;
    for (const chunk of chunksOf(left, most)) {
      const error = await sendChunk(chunk, send, tries);
      if (!error) continue;
      // A part of the chunk may fit, where the whole is too large or more than the rate has left.
      if (chunk.length > 1 && (error.status === 413 || error.status === 429)) most = Math.min(most, chunk.length) >> 1;
      if (error.passing && error.retryAfter >= (failed?.retryAfter ?? 0)) failed = error;
    }
    if (failed && entries.some(unanswered)) await rest(pause(++round, failed));
  }
  return entries.map(({ answer }) => answer);
}

const unanswered = ({ answer }) => answer === undefined;

function* chunksOf(entries, most) {
  let chunk = [], size = 0;
  for (const entry of entries) {
    const bytes = Buffer.byteLength(entry.text) + 1;
    if (chunk.length > 0 && (chunk.length === most || size + bytes > MOST_BYTES)) {
      yield chunk;
      chunk = [];
      size = 0;
    }
    chunk.push(entry);
    size += bytes;
  }
  if (chunk.length > 0) yield chunk;
}

// Makes one call. The error is that of the call, or of an entry that has to be sent again.
async function sendChunk(chunk, send, tries) {
  let answers;
  try {
    answers = (await send(`[${chunk.map(({ text }) => text).join(',')}]`))?.apiResponseData;
    if (!Array.isArray(answers)) throw notUnderstood('submit');
  } catch (e) {
    if (!(e instanceof TierqError)) throw e;
    if (e.status === 413 && chunk.length > 1) return e;
    for (const entry of chunk) refuse(entry, e, tries);
    return e;
  }
  let failed;
  chunk.forEach((entry, i) => {
    const { errorCode, jobId } = answers[i] ?? {};
    if (!errorCode && typeof jobId === 'string') {
      entry.answer = jobId;
      return;
    }
    const e = errorCode ? entryError(answers[i]) : notUnderstood('submit');
    refuse(entry, e, tries);
    if (e.passing && e.retryAfter >= (failed?.retryAfter ?? 0)) failed = e;
  });
  return failed;
}

// Takes a refusal: the answer about an entry, unless the entry is sent again.
function refuse(entry, e, tries) {
  // What an earlier try may have done is not undone by the refusal of this one.
  entry.unknown ||= e.status === 0 || (e.status >= 500 && e.status !== 501 && e.status !== 503);
  entry.made++;
  if (e.passing && entry.made < tries) return;
  const Kind = entry.unknown ? OutcomeUnknown : e.passing ? Unavailable : TierqError;
  entry.answer = new Kind(e.message, { ...e });
}

function entryError({ status, errorCode, detail, jobId, errors, retryAfter }) {
  const code = String(errorCode);
  const said = typeof detail === 'string' ? detail : '';
  return new TierqError(`submit: ${code}: ${said}`, {
    status: Number.isInteger(status) ? status : STATUS[code] ?? 400, code, detail: said, jobId, errors,
    retryAfter: retryAfter > 0 ? Math.min(retryAfter, 3600) : 0,
  });
}
