// Texts and JSON made from the values of users' code, which may throw wherever it is touched.
import { inspect } from 'node:util';

// Returns what fn returns; undefined if it throws.
export function tried(fn) {
  try {
    return fn();
  } catch {
    return undefined;
  }
}

// Returns a text for any value. It never throws.
export function textOf(value) {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return String(value);
  return tried(() => (typeof value.toString === 'function' && value.toString !== Object.prototype.toString
    ? String(value) : undefined))
    ?? tried(() => inspect(value, { depth: 1, breakLength: Infinity, maxArrayLength: 10, maxStringLength: 4096 }))
    ?? tried(() => Object.prototype.toString.call(value))
    ?? `a value of the type ${typeof value}`;
}

// Returns the text of an error; '' for none. It never throws.
export function messageOf(error) {
  if (error === undefined || error === null) return '';
  return memberOf(error, 'message') || textOf(error);
}

// Returns a member of an object as a text; undefined if it has none or cannot be read.
export function memberOf(value, name) {
  if (typeof value !== 'object' && typeof value !== 'function') return undefined;
  const member = tried(() => value[name]);
  return member === undefined || member === null ? undefined : textOf(member);
}

// Returns the beginning of a string, as valid UTF-8 of at most that many bytes.
export function cut(text, bytes) {
  let part = text.slice(0, bytes);
  if (part.length < text.length && /[\ud800-\udbff]$/.test(part)) part = part.slice(0, -1);
  const whole = Buffer.from(part.toWellFormed());
  if (whole.length <= bytes) return whole.toString();
  while ((whole[bytes] & 0xc0) === 0x80) bytes--; // not within a character
  return whole.toString('utf8', 0, bytes);
}

const ESCAPES = /\\(?:u(?:d[89ab]..\\ud[c-f]|(d[89a-f]))..|.)/gi;

// Returns the JSON of a value, undefined if it has none. Lone surrogates become U+FFFD, in names as well. It throws
// what the value throws, and what JSON.stringify throws.
export function jsonOf(value, replacer) {
  const json = JSON.stringify(value, replacer);
  if (json === undefined || !/\\ud/i.test(json)) return json;
  const valid = json.replace(ESCAPES, (escape, lone) => (lone ? '\ufffd' : escape));
  return JSON.stringify(JSON.parse(valid)); // two names may have become one
}

// Returns how many levels of arrays and objects a JSON text has.
export function depthOf(json) {
  let depth = 0, most = 0;
  for (const [c] of json.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/g)) {
    if (c === '{' || c === '[') most = Math.max(most, ++depth);
    else if (c === '}' || c === ']') depth--;
  }
  return most;
}

// Returns the whole number from 0 to 2^53-1 that is nearest to a value; 0 for what is no number.
export function whole(value) {
  const n = tried(() => Math.trunc(Number(value))) || 0;
  return Math.min(Math.max(n, 0), Number.MAX_SAFE_INTEGER);
}

// Returns a logger that never throws, whatever the program's own logger does.
export function guarded(log) {
  const line = (level) => (...args) => {
    const said = tried(() => log[level](...args));
    tried(() => typeof said?.then === 'function' && said.then(undefined, () => {}));
  };
  return { info: line('info'), warn: line('warn'), error: line('error') };
}
