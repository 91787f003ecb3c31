// The player of /demo: events are buffered as they come and shown at the chosen speed, one by one if asked.
import { hue, short } from "./format.js";
import { Stage } from "./stage.js";

const $ = (id) => document.getElementById(id);
const root = $("demo");
const stage = new Stage(Number(root.dataset.slots), Number(root.dataset.capacity));
const held = new Map(); // what each key held when it was last shown: key -> entries
let buffer = [], shown = 0, playing = true, timer = 0, source = null, last = 0, wanted = "", began = false;

const speed = () => Number($("speed").value) || 1;

// listen keeps one stream open. The server ends it for good when there is nothing to hear, so it begins once a scenario is played.
function listen() {
  if (source && source.readyState !== EventSource.CLOSED) return;
  source = new EventSource(`${root.dataset.events}?after=${last}`);
  source.onmessage = (m) => heard(JSON.parse(m.data));
}

function heard(e) {
  if (e.kind === "began") { buffer = []; shown = 0; began = true; clearTimeout(timer); timer = 0; } else if (e.id <= last) return;
  last = e.id;
  if (!began && wanted) return; // of what was played before
  if (e.kind === "done") source.close(); // of six connections per server a page that listens to nothing needs none
  buffer.push(e);
  progress();
  if (playing) plan();
}

// plan shows the next event when its time has come: as long after the one before it as it was, over the speed.
function plan() {
  if (timer || shown >= buffer.length || !playing) return;
  const e = buffer[shown], before = buffer[shown - 1];
  const gap = before ? Math.min(Date.parse(e.at) - Date.parse(before.at), 1500) : 0;
  timer = setTimeout(() => { timer = 0; next(); plan(); }, Math.max(gap, least(e), reading(before)) / speed());
}
const least = (e) => (e.kind === "lease.beat" || e.kind === "capacity.changed" ? 20 : e.kind === "caption" ? 500 : 140);
const reading = (e) => (e?.kind === "caption" ? 800 + 190 * e.note.split(" ").length : 0); // ms until it is read

function next() {
  const e = buffer[shown];
  if (!e) return;
  shown++;
  stage.apply(e);
  if (e.kind === "began") { $("trail").replaceChildren(); held.clear(); root.removeAttribute("data-done"); root.dataset.shows = e.scenario; }
  if (e.kind === "caption") caption(e.note, e.file);
  if (e.kind === "done") { root.dataset.done = e.scenario; if (e.error) caption("It did not come to its end: " + e.error); }
  if (e.script && e.kind !== "lease.beat") script(e);
  trail(e);
  progress();
}

function caption(text, file) {
  $("caption").replaceChildren(text || "");
  if (!file) return;
  const code = document.createElement("code");
  code.textContent = file;
  $("caption").append(" ", code);
}

function script(e) {
  const code = document.createElement("code");
  code.textContent = e.script + ".lua";
  $("script").replaceChildren(code, e.note ? "  " + e.note : "");
  $("keys").replaceChildren(...(e.keys || []).map((k) => named("li", k)));
  $("snapshot").replaceChildren(...(e.snapshot || []).flatMap((s) => {
    const had = held.get(s.key), has = new Map((s.entries || []).map((x) => [x.name, x.value]));
    held.set(s.key, has);
    const list = document.createElement("dl");
    list.append(...(s.entries || []).map((x) => {
      const row = document.createElement("div");
      if (x.name === e.job) row.className = "me";
      if (had?.get(x.name) !== x.value) row.classList.add("new");
      row.append(item("dt", short(x.name)), item("dd", x.value));
      return row;
    }));
    if (s.more) list.append(item("div", `and ${s.more} more`));
    return [named("h3", s.key, s.type), list];
  }));
}

// named shows a key; its prefix, which all of them have, is quiet.
function named(tag, key, type) {
  const el = document.createElement(tag), cut = key.indexOf("}:") + 2;
  el.append(item("i", key.slice(0, cut)), key.slice(cut));
  if (type) el.append(" ", item("i", type));
  el.title = key;
  return el;
}

function item(name, text) {
  const el = document.createElement(name);
  el.textContent = text;
  el.title = text;
  return el;
}

function trail(e) {
  if (e.kind === "lease.beat" || e.kind === "caption") return;
  const li = document.createElement("li");
  const since = (Date.parse(e.at) - Date.parse(buffer[0].at)) / 1000;
  const job = item("i", e.job ? "#" + stage.jobs.get(e.job)?.n : "");
  job.className = hue(e.tier || "");
  li.append(item("time", `${since.toFixed(2)} s`), item("b", e.kind), job, item("span", [e.tier, e.note].filter(Boolean).join(" · ")));
  $("trail").prepend(li);
  while ($("trail").children.length > 80) $("trail").lastElementChild.remove();
}

const over = () => Boolean(root.dataset.done) && shown === buffer.length;

function progress() {
  const done = over();
  $("progress").textContent = buffer.length ? `${shown} of ${buffer.length} events${done ? ", the end" : ""}` : "";
  $("step").disabled = shown >= buffer.length;
  $("play").textContent = done ? "Replay" : playing && wanted ? "Pause" : "Play";
  $("play").setAttribute("aria-pressed", String(playing));
}

async function choose(button) {
  for (const b of $("scenes").querySelectorAll("[data-scenario]")) b.setAttribute("aria-pressed", String(b === button));
  wanted = button.dataset.scenario;
  began = false;
  buffer = [];
  shown = 0;
  clearTimeout(timer);
  timer = 0;
  playing = true;
  root.removeAttribute("data-done");
  progress();
  caption("An empty queue is being set up.");
  try {
    const res = await fetch(root.dataset.play, { method: "POST", body: new URLSearchParams({ scenario: wanted }) });
    if (res.ok) listen();
    else caption(`${(await res.json()).detail} Try again in a moment.`);
  } catch { caption("The server does not answer. Try again in a moment."); }
}

$("scenes").addEventListener("click", (e) => { const b = e.target.closest("[data-scenario]"); if (b) choose(b); });
function toggle() {
  if (!wanted) { $("scenes").querySelector("[data-scenario]")?.click(); return; }
  if (over()) { shown = 0; playing = true; } else playing = !playing; // what happened can be seen again
  clearTimeout(timer);
  timer = 0;
  progress();
  plan();
}
$("play").addEventListener("click", toggle);
addEventListener("tierq:pause", toggle);
function step() { playing = false; clearTimeout(timer); timer = 0; next(); progress(); }
$("step").addEventListener("click", step);
$("speed").addEventListener("change", () => { clearTimeout(timer); timer = 0; plan(); });
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.("input, textarea, select, dialog")) return;
  if (e.key >= "1" && e.key <= "9") $("scenes").querySelectorAll("[data-scenario]:enabled")[e.key - 1]?.click();
  else if (e.key === ".") step();
});
progress();
