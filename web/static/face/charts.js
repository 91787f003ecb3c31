// Throughput and wait, from the buckets that the server keeps.
import { count, rate, span } from "./format.js";

const $ = (id) => document.getElementById(id);
let window_ = "5m", percentile = "p95", series = null, plots = [];

// colour resolves what the style sheet says: a canvas cannot read light-dark().
const probe = document.createElement("i");
probe.hidden = true;
document.body.append(probe);
function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}
const hueOf = (tier) => (["PAID", "UNPAID", "PUBLIC"].includes(tier) ? tier.toLowerCase() : "other");
const faint = (c) => c.replace(/^rgb\((.*)\)$/, "rgba($1, 0.12)");

export function charts(live) {
  choose($("window"), "window", (w) => { window_ = w; load(); });
  choose($("percentile"), "p", (p) => { percentile = p; draw(); });
  addEventListener("tierq:theme", draw);
  const room = new ResizeObserver(() => { for (const { plot, box } of plots) plot.setSize(sizeOf(box)); });
  room.observe($("chart-rate"));
  room.observe($("chart-wait"));
  load();
  setInterval(() => { if (!live.paused() && !document.hidden) load(); }, 10000);
}

function choose(group, key, then) {
  group.addEventListener("click", (e) => {
    const b = e.target.closest("button");
    if (!b) return;
    for (const other of group.children) other.setAttribute("aria-pressed", String(other === b));
    then(b.dataset[key]);
  });
}

async function load() {
  const asked = window_;
  try {
    const res = await fetch("/api/stats/series?window=" + asked);
    if (!res.ok) throw new Error(String(res.status));
    const got = await res.json();
    if (asked !== window_) return;
    series = got;
  } catch { return; } // the stale sign says it; the next round asks again
  draw();
}

const sizeOf = (box) => ({ width: Math.max(box.clientWidth - 16, 120), height: 196 });

function draw() {
  if (!series || !globalThis.uPlot) return;
  for (const { plot } of plots) plot.destroy();
  const from = Date.parse(series.from) / 1000, step = series.bucketSeconds, many = series.tiers[0]?.submitted.length ?? 0;
  const x = Array.from({ length: many }, (_, i) => from + i * step);
  // The last bucket is still being counted: it is as long as it has lasted.
  const lasted = Math.min(Date.parse(series.timestamp) / 1000 - x[many - 1], step);
  const perSecond = (counts) => counts.map((n, i) => (i < many - 1 ? n / step : lasted < Math.min(step / 2, 10) ? null : n / lasted)); // too young to tell
  const sum = (...columns) => x.map((_, i) => columns.reduce((n, c) => n + c[i], 0));
  plots = [
    make($("chart-rate"), [x, ...series.tiers.map((t) => perSecond(sum(t.completed, t.failed, t.cancelled, t.expired))), perSecond(sum(...series.tiers.map((t) => t.submitted)))],
      [...series.tiers.map((t) => line(t.tier, hueOf(t.tier), rate, true)), { ...line("submitted", "ink-3", rate), dash: [5, 4] }], false),
    make($("chart-wait"), [x, ...series.tiers.map((t) => t.waitSeconds[percentile])], series.tiers.map((t) => line(t.tier, hueOf(t.tier), span)), true),
  ];
}

function line(label, name, text, filled) {
  const c = colour(name);
  return { label, stroke: c, width: 1.6, fill: filled ? faint(c) : undefined, points: { show: alone, size: 6, fill: c }, spanGaps: true, value: (_, v) => (v == null ? "–" : text(v)) };
}

// alone says whether a line has one point only, which is no line to be seen.
const alone = (u, i) => u.data[i].filter((v) => v != null).length === 1;

function make(box, data, lines, log) {
  box.replaceChildren();
  const ink = colour("ink-3"), grid = { stroke: colour("line"), width: 1 };
  const axis = { stroke: ink, font: "12px system-ui, sans-serif", grid, ticks: { show: false } };
  const seen = data.slice(1).flat().filter((v) => v > 0);
  if (log && !seen.length) {
    const none = document.createElement("p");
    none.className = "quiet";
    none.textContent = "No job was claimed for the first time in this window.";
    box.append(none);
    return { plot: { destroy() {}, setSize() {} }, box };
  }
  const plot = new globalThis.uPlot({
    ...sizeOf(box),
    tzDate: (s) => globalThis.uPlot.tzDate(new Date(s * 1000), "UTC"),
    padding: [8, 8, 0, 0],
    cursor: { points: { size: 6 }, drag: { x: false, y: false } },
    legend: { live: true },
    hooks: { ready: [latest], setCursor: [(u) => { if (u.cursor.idx == null) latest(u); }] },
    scales: { y: log ? { distr: 3, range: (u, lo, hi) => [10 ** Math.floor(Math.log10(lo)), 10 ** Math.ceil(Math.log10(hi * 1.01))] } : { range: (u, lo, hi) => [0, Math.max(hi * 1.1, 1)] } },
    series: [{ label: "UTC", value: (_, t) => (t == null ? "–" : new Date(t * 1000).toISOString().slice(11, 19)) }, ...lines],
    axes: [{ ...axis, space: 70, values: (u, all) => all.map((t) => new Date(t * 1000).toISOString().slice(11, series.bucketSeconds < 60 ? 19 : 16)) }, { ...axis, size: 54, filter: (u, all) => all, incrs: log ? undefined : whole, splits: log ? decades : undefined, values: (u, all) => all.map((v) => (v == null ? "" : log ? neatly(v) : count(v))) }],
  }, data, box);
  return { plot, box };
}

// latest lets the legend say how it stands, while nobody points at an earlier moment.
const latest = (u) => {
  let i = u.data[0].length - 1;
  while (i > 0 && u.data.slice(1).every((column) => column[i] == null)) i--;
  u.setLegend({ idx: i });
};

// Jobs per second are counted in whole ones on the axis.
const whole = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000];

const neatly = (s) => (s < 1 ? `${Number((s * 1000).toPrecision(1))} ms` : s < 3600 ? `${s} s` : `${Math.round(s / 3600)} h`);

function decades(u, axis, lo, hi) {
  const all = [];
  for (let v = 10 ** Math.round(Math.log10(lo)); v <= hi * 1.01; v *= 10) all.push(v);
  return all;
}
