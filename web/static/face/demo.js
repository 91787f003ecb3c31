// The player of /demo: events are buffered as they come and shown at the chosen speed, one by one if asked.
import { clock, short } from "./format.js";
import { Stage } from "./stage.js";

const $ = (id) => document.getElementById(id);
const root = $("demo");
const stage = new Stage(Number(root.dataset.slots), Number(root.dataset.capacity));
let buffer = [], shown = 0, playing = true, timer = 0, source = null, last = 0, wanted = "", began = false;

const speed = () => Number($("speed").value) || 1;

function listen() {
  if (source && source.readyState !== EventSource.CLOSED) return;
  source = new EventSource(root.dataset.events);
  source.onmessage = (m) => heard(JSON.parse(m.data));
}

function heard(e) {
  if (e.id <= last) return;
  last = e.id;
  if (e.kind === "began") { buffer = []; shown = 0; began = true; clearTimeout(timer); timer = 0; }
  if (!began && wanted) return; // of what was played before
  buffer.push(e);
  progress();
  if (playing) plan();
}

// plan shows the next event when its time has come: as long after the one before it as it was, over the speed.
function plan() {
  if (timer || shown >= buffer.length || !playing) return;
  const gap = shown ? Date.parse(buffer[shown].at) - Date.parse(buffer[shown - 1].at) : 0;
  const behind = buffer.length - shown;
  const wait = Math.min(Math.max(gap, minimum(buffer[shown].kind)), 1500) / speed() / (behind > 150 ? 2 : 1);
  timer = setTimeout(() => { timer = 0; next(); plan(); }, wait);
}
const minimum = (kind) => (kind === "lease.beat" || kind === "capacity.changed" ? 20 : kind === "caption" ? 500 : 140);

function next() {
  const e = buffer[shown];
  if (!e) return;
  shown++;
  stage.apply(e);
  if (e.kind === "began") { $("trail").replaceChildren(); root.removeAttribute("data-done"); root.dataset.shows = e.scenario; }
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
  $("keys").replaceChildren(...(e.keys || []).map((k) => item("li", k)));
  $("snapshot").replaceChildren(...(e.snapshot || []).flatMap((s) => {
    const list = document.createElement("dl");
    list.append(...(s.entries || []).map((x) => {
      const row = document.createElement("div");
      row.append(item("dt", short(x.name)), item("dd", x.value));
      return row;
    }));
    if (s.more) list.append(item("div", `and ${s.more} more`));
    return [item("h3", `${s.key}  ${s.type}`), list];
  }));
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
  li.append(item("b", e.kind), item("span", [clock(e.at), e.tier, e.note || short(e.job || "")].filter(Boolean).join(" · ")));
  $("trail").prepend(li);
  while ($("trail").children.length > 80) $("trail").lastElementChild.remove();
}

function progress() {
  const done = root.dataset.done && shown === buffer.length;
  $("progress").textContent = buffer.length ? `${shown} of ${buffer.length} events${done ? ", the end" : ""}` : "";
  $("step").disabled = shown >= buffer.length;
  $("play").textContent = playing ? "Pause" : "Play";
  $("play").setAttribute("aria-pressed", String(playing));
}

async function choose(button) {
  for (const b of $("scenes").querySelectorAll("[data-scenario]")) b.setAttribute("aria-pressed", String(b === button));
  wanted = button.dataset.scenario;
  began = false;
  clearTimeout(timer);
  timer = 0;
  playing = true;
  listen();
  caption("An empty queue is being set up.");
  try {
    const res = await fetch(root.dataset.play, { method: "POST", body: new URLSearchParams({ scenario: wanted }) });
    if (!res.ok) caption(res.status === 429 ? "That was quick: one scenario a second." : "The sandbox is not free now. Try again in a moment.");
  } catch { caption("The server does not answer. Try again in a moment."); }
  listen();
  progress();
}

$("scenes").addEventListener("click", (e) => { const b = e.target.closest("[data-scenario]"); if (b) choose(b); });
function toggle() {
  if (!buffer.length && !wanted) { $("scenes").querySelector("[data-scenario]")?.click(); return; }
  playing = !playing;
  clearTimeout(timer);
  timer = 0;
  progress();
  plan();
}
$("play").addEventListener("click", toggle);
addEventListener("tierq:pause", toggle);
$("step").addEventListener("click", () => { playing = false; clearTimeout(timer); timer = 0; next(); progress(); });
$("speed").addEventListener("change", () => { clearTimeout(timer); timer = 0; plan(); });
playing = true;
progress();
$("play").textContent = "Play";
