// What a handler tells of its job in addition to the result: how far it is, and lines of a log.
import { clock } from './call.js';
import { cut, depthOf, jsonOf, textOf, tried, whole } from './text.js';

export const TELL_TIME = 2000; // ms for a call with lines, and for an end that waits for what its handler has told
const MOST_NOTE = 200; // bytes
const MOST_LINE = 4 << 10; // bytes of the text and of the attributes of a line
const MOST_DEPTH = 24; // levels of attributes
const MOST_NUMBER = 998_000; // of a line
const MOST_WAITING = 1000; // lines of a job
const MOST_WAITING_BYTES = 512 << 10;
const MOST_AGE = 3_600_000; // ms
const POST_EVERY = 50; // ms between two progresses that are handed over

// What one handler has told and the server lacks.
export class Told {
  step = 0; // the number of the last progress that was handed over
  dropped = 0; // lines behind those that wait, which did not fit
  closed = false; // the handler has returned, or the lease is lost
  #lines = [];
  #size = 0;
  #first = 1; // the number of the first line that waits
  #taken = 0; // the number of the last progress that the server has
  #progress; // to be handed over
  #post;
  #postedAt = -Infinity;
  #timer;
  #sent;

  get waiting() {
    return this.#lines.length + this.dropped;
  }

  // Takes how far the handler is. post hands it over: at once, or if that was done a moment ago, a moment later.
  progressed(done, total, note, post) {
    if (this.closed) return;
    const text = note === undefined || note === null ? '' : cut(textOf(note), MOST_NOTE);
    this.#progress = { done: whole(done), total: whole(total) || undefined, note: text || undefined };
    this.#post = post;
    const wait = this.#postedAt + POST_EVERY - clock();
    if (wait <= 0) this.posted();
    else this.#timer ??= setTimeout(() => this.posted(), wait);
  }

  // Hands over the last progress, if that was not done yet.
  posted() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#progress) return;
    this.step++;
    this.#postedAt = clock();
    this.#post(this.step, JSON.stringify({ step: this.step, ...this.#progress }));
    this.#progress = undefined;
  }

  // The server has a progress, or refuses it.
  progressTaken(step) {
    this.#taken = Math.max(this.#taken, step);
    this.told();
  }

  // Whether the server lacks the last progress.
  get behind() {
    return this.#progress !== undefined || this.#taken < this.step;
  }

  // Takes a line, and returns whether it is the first that waits.
  logged(level, message, attrs) {
    if (this.closed || this.#first + this.waiting > MOST_NUMBER) return false;
    const first = this.waiting === 0;
    const text = cut(message, MOST_LINE);
    const json = attrsOf(attrs, MOST_LINE - Buffer.byteLength(text));
    const size = Buffer.byteLength(text) + Buffer.byteLength(json);
    if (this.dropped || this.#lines.length === MOST_WAITING || this.#size + size > MOST_WAITING_BYTES) {
      this.dropped++;
      return first;
    }
    const members = JSON.stringify({ level, text }).slice(0, -1) + (json && `,"attrs":${json}`);
    this.#lines.push({ members, size, at: clock() });
    this.#size += size;
    return first;
  }

  // Returns lines for a call, with the number of the first. Lost lines are one null, under the last one's number.
  take(most) {
    const kept = Math.min(this.#lines.length, most);
    if (kept === 0) return { from: this.#first + this.dropped - 1, lines: ['null'], kept, lost: this.dropped };
    const now = clock();
    const lines = this.#lines.slice(0, kept).map(({ members, at }) =>
      `${members},"ageMs":${Math.min(Math.floor(now - at), MOST_AGE)}}`);
    return { from: this.#first, lines, kept, lost: 0 };
  }

  // Takes off lines that the server has, or does not take.
  taken({ kept, lost }) {
    this.#first += kept + lost;
    this.dropped = Math.max(this.dropped - lost, 0);
    for (const line of this.#lines.splice(0, kept)) this.#size -= line.size;
    this.told();
  }

  // The server understands none of the lines: they become lost ones.
  refused({ lost }) {
    this.dropped += this.#lines.length - lost;
    this.#first += lost;
    this.#lines = [];
    this.#size = 0;
    this.told();
  }

  // The lease is lost: there is nobody to tell.
  forget() {
    this.closed = true;
    this.#first += this.waiting;
    this.dropped = this.#size = 0;
    this.#lines = [];
    this.#taken = this.step;
    this.#progress = undefined;
    clearTimeout(this.#timer);
    this.told();
  }

  // Looks whether the server has everything.
  told() {
    if (!this.behind && this.waiting === 0) this.#sent?.();
  }

  // Waits until the server has everything, two seconds at most.
  rest() {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, TELL_TIME);
      this.#sent = () => (clearTimeout(timer), resolve());
      this.told();
    });
  }
}

// Returns the attributes of a line as a JSON object, without the members that are no JSON; '' if there are none left,
// or too many.
function attrsOf(attrs, most) {
  if (attrs === undefined || attrs === null) return '';
  const given = tried(() => (attrs instanceof Error)) ? { error: attrs } : attrs;
  const json = written(given) ?? written(tried(() => Object.fromEntries(
    Object.keys(given).map((name) => [name, tried(() => given[name])])
      .filter(([, value]) => written({ value }) !== undefined))));
  return json?.startsWith('{') && json !== '{}' && Buffer.byteLength(json) <= most ? json : '';
}

function written(value) {
  const json = tried(() => jsonOf(value, (name, part) =>
    (typeof part === 'bigint' || part instanceof Error ? textOf(part) : part)));
  return json === undefined || json.length > MOST_WAITING_BYTES || depthOf(json) > MOST_DEPTH ? undefined : json;
}
