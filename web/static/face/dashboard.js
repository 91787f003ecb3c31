// The live dashboard: what each snapshot says, countdowns in between, the feed.
import { follow } from "./live.js";
import { binder } from "./bind.js";
import { gate } from "./core.js";
import { list, put, link } from "./rows.js";
import { charts } from "./charts.js";
import { ago, clock, count, due, hue, neat, short, span, tone } from "./format.js";

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
  const p = l.progress;
  row.fields.how.hidden = !p;
  if (p) {
    put(row, "howtext", p.total ? `${Math.floor(100 * Math.min(p.done / p.total, 1))} %` : count(p.done) + " done");
    row.fields.howtrack.toggleAttribute("hidden", !p.total);
    row.fields.howbar.setAttribute("width", part(p.done, p.total));
  }
  row.times = { beat: Date.parse(l.heartbeatBy), beats: l.heartbeatSeconds, max: Date.parse(l.endBy), maxs: l.maxSeconds, from: Date.parse(l.startedAt) };
  leases.push(row);
});

// When the two watches look again.
const watches = [...document.querySelectorAll("[data-watch]")].map((el) => {
  const fields = { every: el.querySelector('[data-f="every"]'), next: el.querySelector('[data-f="next"]') };
  return { el, fields, hear(w) { put(this, "every", neat(w.delaySeconds)); this.next = w.nextAt && Date.parse(w.nextAt); this.longest = w.delaySeconds; } };
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
  for (const row of watches) if (row.next) put(row, "next", due((row.next - now()) / 1000, row.longest));
}
const part = (n, whole) => (whole > 0 ? Math.min(100 * n / whole, 100).toFixed(1) : 0);

const drawWorkers = write && list($("workers"), $("worker-row"), (row, w) => {
  for (const f of ["name", "host", "state", "pid", "version", "running", "slots", "stuck"]) put(row, f, w[f]);
  put(row, "seen", ago((now() - Date.parse(w.seenAt)) / 1000));
  row.fields.bar.setAttribute("width", part(w.running, w.slots));
  row.el.classList.toggle("gone", now() - Date.parse(w.seenAt) > 5000);
  ask(row, "quiet", "Quiet", w, w.asked === "quiet" || w.asked === "terminate");
  ask(row, "resume", "Resume", w, w.asked !== "quiet" && w.asked !== "terminate");
  ask(row, "terminate", "Terminate", w, w.asked === "terminate");
});

// ask fits one of a worker's buttons, which only operators who may change something have.
function ask(row, verb, label, w, hidden) {
  const button = row.fields[verb];
  if (!button) return;
  button.value = w.name;
  button.setAttribute("aria-label", label + " " + w.name);
  button.hidden = hidden;
}

const drawQueues = write && list($("queues"), $("queue-row"), (row, q) => {
  put(row, "queue", q.queue);
  for (const f of ["depth", "scheduled", "inFlight"]) put(row, f, count(q[f]));
  put(row, "workers", q.workers);
  put(row, "state", q.paused ? "paused" : q.workers === 0 && q.depth > 0 ? "no worker takes its jobs" : q.push ? "push" : "");
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
  drawGate(s.gate);
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
  for (const w of s.watches) watches.find((row) => row.el.dataset.watch === w.name)?.hear(w);
  leases = [];
  drawLeases(s.leases.map((l) => ({ ...l, key: l.jobId })));
  $("leases-none").hidden = s.leases.length > 0;
  drawQueues(s.queues.map((q) => ({ ...q, key: q.queue })));
  $("queues-all").hidden = s.queues.length < 2;
  drawWorkers(s.workers.map((w) => ({ ...w, key: w.name })));
  $("workers-none").hidden = s.workers.length > 0;
  tick();
}

function drawGate(g) {
  gate(g);
  $("gate-big").textContent = g.open ? "open" : "closed";
  $("gate-big").className = g.open ? "ok" : "bad";
  $("gate-why").textContent = g.open ? (g.failures ? g.failures + " errors in a row" : "") : g.reason;
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

// happened puts an item where its time is: who joins late, or comes back, hears old ones too.
function happened(f) {
  if (feed.some((g) => g.key === f.id)) return;
  const older = feed.findIndex((g) => Date.parse(g.at) <= Date.parse(f.at));
  feed.splice(older < 0 ? feed.length : older, 0, { ...f, key: f.id, fresh: true });
  feed = feed.slice(0, 100);
  drawFeed(feed);
  $("feed-none").hidden = true;
  // While Redis is away there are no snapshots, and yet the gate closes.
  if (f.kind === "gate" && feed.find((g) => g.kind === "gate").key === f.id) drawGate({ open: f.text.startsWith("open"), reason: f.text.replace("closed: ", "") });
}

if (write) {
  for (const el of $("feed").children) feed.push({ key: el.dataset.key, at: el.querySelector("time").dateTime });
  const live = follow((m) => { if (m.snapshot) draw(m.snapshot); if (m.feed) happened(m.feed); });
  setInterval(() => { if (live.moves() && !document.hidden) tick(); }, 250); // of old numbers nothing counts down
  charts(live);
} else {
  follow(({ snapshot }) => { if (snapshot) again(); }); // the numbers are there again
}
