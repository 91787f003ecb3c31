// The live dashboard: what each snapshot says, countdowns in between, the feed.
import { follow } from "./live.js";
import { binder, gate } from "./bind.js";
import { list, put, link } from "./rows.js";
import { charts } from "./charts.js";
import { ago, clock, hue, neat, short, span, tone } from "./format.js";

const $ = (id) => document.getElementById(id);
const write = $("lanes") && binder();
let clockAhead = 0; // of the server's clock before ours, in ms
const now = () => Date.now() + clockAhead;
let leases = [], feed = [];

const drawLeases = write && list($("leases"), $("lease-row"), (row, l) => {
  link(row, l.jobId, short);
  if (row.tier !== l.tier) {
    row.tier = l.tier;
    row.fields.tier.className = "tier " + hue(l.tier);
    row.fields.tier.lastElementChild.textContent = l.tier;
  }
  put(row, "type", l.type);
  put(row, "worker", l.worker);
  row.fields.type.title = l.type;
  row.fields.worker.title = l.worker;
  put(row, "attempt", l.attempt);
  row.times = { beat: Date.parse(l.heartbeatBy), beats: l.heartbeatSeconds, max: Date.parse(l.endBy), maxs: l.maxSeconds, from: Date.parse(l.startedAt) };
  leases.push(row);
});

// tick moves the countdowns; the numbers come from the leases' own deadlines.
function tick() {
  for (const row of leases) {
    const t = row.times, beat = Math.max((t.beat - now()) / 1000, 0), max = Math.max((t.max - now()) / 1000, 0);
    put(row, "elapsed", span(Math.max((now() - t.from) / 1000, 0)));
    put(row, "beat", span(beat));
    put(row, "max", span(max));
    row.fields.beatbar.setAttribute("width", part(beat, t.beats));
    row.fields.maxbar.setAttribute("width", part(max, t.maxs));
    row.el.classList.toggle("low", beat < t.beats / 4);
  }
}
const part = (n, whole) => (whole > 0 ? Math.min(100 * n / whole, 100).toFixed(1) : 0);

const drawWorkers = write && list($("workers"), $("worker-row"), (row, w) => {
  for (const f of ["name", "host", "pid", "version", "running", "slots", "stuck"]) put(row, f, w[f]);
  put(row, "seen", ago((now() - Date.parse(w.seenAt)) / 1000));
  row.fields.bar.setAttribute("width", part(w.running, w.slots));
  row.el.classList.toggle("gone", now() - Date.parse(w.seenAt) > 5000);
});

const drawFeed = write && list($("feed"), $("feed-row"), (row, f) => {
  if (row.filled || !f.kind) return; // drawn before, or by the server
  row.filled = true;
  row.el.className = tone(f.kind);
  put(row, "at", clock(f.at));
  row.fields.at.dateTime = f.at;
  put(row, "kind", f.kind);
  put(row, "text", f.text);
  row.fields.id.hidden = !f.jobId;
  if (f.jobId) link(row, f.jobId, short);
  if (f.fresh) row.el.classList.add("new");
});

function draw(s) {
  clockAhead = Date.parse(s.at) - Date.now();
  if (s.tiers.map((t) => t.tier).join() !== [...document.querySelectorAll("[data-lane]")].map((e) => e.dataset.lane).join()) return again();
  write(s);
  gate(s.gate);
  $("gate-big").textContent = s.gate.open ? "open" : "closed";
  $("gate-big").className = s.gate.open ? "ok" : "bad";
  $("gate-why").textContent = s.gate.open ? (s.gate.failures ? s.gate.failures + " errors in a row" : "") : s.gate.reason;
  $("hint").hidden = !s.hint;
  $("hint").textContent = s.hint;
  let x = 0;
  for (const t of s.tiers) {
    const seg = $("capsegs").querySelector(`[data-tier="${t.tier}"]`);
    const w = s.capacity.limit > 0 ? Math.min(1000 * t.depth / s.capacity.limit, 1000 - x) : 0;
    seg?.setAttribute("x", x);
    seg?.setAttribute("width", w);
    x += w;
    if (t.spark?.length) document.querySelector(`[data-spark="${t.tier}"]`)?.setAttribute("points", points(t.spark));
  }
  $("watches").textContent = s.watches.map((w) => `${w.name} every ${neat(w.delaySeconds)}` + (w.nextAt ? `, next ${ago((now() - Date.parse(w.nextAt)) / 1000)}` : "")).join(" · ");
  leases = [];
  drawLeases(s.leases.map((l) => ({ ...l, key: l.jobId })));
  $("leases-none").hidden = s.leases.length > 0;
  drawWorkers(s.workers.map((w) => ({ ...w, key: w.name })));
  $("workers-none").hidden = s.workers.length > 0;
  tick();
}

// again reads the page anew, where what it shows is not what there is; not in a circle.
function again() {
  let at = 0;
  try { at = Number(sessionStorage.getItem("tierq-again")); sessionStorage.setItem("tierq-again", Date.now()); } catch { return; }
  if (Date.now() - at > 10000) location.reload();
}

function points(values) {
  const most = Math.max(1, ...values);
  return values.map((v, i) => `${(120 * i / Math.max(values.length - 1, 1)).toFixed(1)},${(27 - 25 * v / most).toFixed(1)}`).join(" ");
}

function happened(f) {
  if (feed.some((g) => g.key === f.id)) return;
  feed = [{ ...f, key: f.id, fresh: true }, ...feed].slice(0, 100);
  drawFeed(feed);
  $("feed-none").hidden = true;
}

if (write) {
  for (const el of $("feed").children) feed.push({ key: el.dataset.key });
  const live = follow((m) => { if (m.snapshot) draw(m.snapshot); if (m.feed) happened(m.feed); });
  setInterval(() => { if (!live.paused() && !document.hidden) tick(); }, 250);
  charts(live);
} else {
  follow(({ snapshot }) => { if (snapshot) again(); }); // the numbers are there again
}
