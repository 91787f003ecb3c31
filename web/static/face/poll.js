// A job's page follows the job: at each event the page is read again, so that what stands here is always what the server says.
import { ready, say } from "./core.js";

const box = document.getElementById("job");
let source = null, timer = 0, reading = false, missed = false, shown = "";

// follow listens while somebody looks: HTTP/1.1 has six connections per server, and seven tabs that listen would keep every page from loading.
function follow() {
  stop();
  const url = box.dataset.follow;
  if (!url || document.hidden) return;
  source = new EventSource(url);
  source.addEventListener("open", () => mark("following"));
  source.addEventListener("status", read);
  source.addEventListener("progress", read);
  source.addEventListener("log", soon); // many lines are one reading
  source.addEventListener("bye", () => { stop(); read(); later(); }); // the job has ended, or the server does
  source.onerror = () => { mark("connecting"); if (source.readyState === EventSource.CLOSED) later(); };
}

let due = 0;
function soon() { clearTimeout(due); due = setTimeout(read, 300); }

function stop() { clearTimeout(timer); clearTimeout(due); source?.close(); source = null; }

function later() { mark("connecting"); clearTimeout(timer); timer = setTimeout(again, 2000); }

function mark(word) {
  const el = document.getElementById("following");
  if (!el) return;
  el.hidden = !box.dataset.follow;
  el.textContent = word;
}

function again() { if (box.dataset.follow) { read(); follow(); } }

async function read() {
  if (reading) { missed = true; return; }
  reading = true;
  try {
    const res = await fetch(location.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await res.text(), "text/html");
    const fresh = page.getElementById("job");
    if (res.ok && fresh?.children.length && fresh.querySelector("#job-id")) { if (held) came = [page, fresh]; else swap(page, fresh); }
  } catch { /* the stream comes again, and with it the next reading */ }
  reading = false;
  if (missed) { missed = false; setTimeout(read, 200); }
}

// While a button is pressed, and while its form is on its way, nothing takes its place.
let held = false, came = null, release = 0;
function hold() { held = true; clearTimeout(release); }
function letGo(after) {
  clearTimeout(release);
  release = setTimeout(() => { held = false; if (came) swap(...came); came = null; }, after);
}
box.addEventListener("pointerdown", hold);
addEventListener("pointerup", () => letGo(50));
addEventListener("pointercancel", () => letGo(50));
box.addEventListener("submit", () => { hold(); letGo(5000); });

// swap puts the new page in the old one's place; what somebody folded or scrolled stays as he left it.
function swap(page, fresh) {
  if (fresh.innerHTML === shown) return; // what stands here differs from it: buttons were shown, folds opened
  shown = fresh.innerHTML;
  const was = box.querySelector(".st")?.textContent;
  const open = [...box.querySelectorAll("details")].map((d) => d.open);
  const at = box.contains(document.activeElement) ? document.activeElement.textContent : null;
  const follows = fresh.dataset.follow;
  box.replaceChildren(...fresh.childNodes);
  ready(box);
  const folds = [...box.querySelectorAll("details")];
  if (folds.length === open.length) folds.forEach((d, i) => { d.open = open[i]; });
  if (at) [...box.querySelectorAll("button, a")].find((b) => b.textContent === at)?.focus();
  document.title = page.title;
  const now = box.querySelector(".st")?.textContent;
  if (now !== was) say("The job is " + now);
  const had = box.dataset.follow;
  box.dataset.follow = follows;
  if (!follows) stop(); else if (follows !== had) later();
  mark(source?.readyState === EventSource.OPEN ? "following" : "connecting");
}

document.addEventListener("visibilitychange", () => { if (document.hidden) stop(); else again(); });
setInterval(() => { if (document.hidden && box.dataset.follow) read(); }, 10000); // its title tells of the job
follow();
