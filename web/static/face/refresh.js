// The page of a flow or a batch is read again until its jobs have ended. Only what differs is changed, so focus, scroll
// and typed text stay.
import { ready, say } from "./core.js";

const box = document.getElementById("refresh");
const soon = 2000, late = 10000;
let timer = 0, wait = soon, reading = false;

function later() {
  clearTimeout(timer);
  if (box.dataset.again && !document.hidden) timer = setTimeout(read, wait);
}

function mark(word) {
  const el = document.getElementById("following");
  el.hidden = !box.dataset.again;
  el.textContent = el.hidden ? "" : word;
}

const states = () => [...box.querySelectorAll(".st")].map((s) => s.textContent);

async function read() {
  if (reading) return;
  reading = true;
  try {
    const res = await fetch(location.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await res.text(), "text/html");
    const fresh = page.getElementById("refresh");
    if (res.ok && fresh) swap(page, fresh);
    else { mark("connecting"); wait = late; if (res.status === 404) box.dataset.again = ""; }
  } catch { mark("connecting"); wait = late; }
  reading = false;
  later();
}

function swap(page, fresh) {
  const was = states();
  fit(box, fresh);
  ready(box);
  document.title = page.title;
  const now = states();
  if (now[0] !== was[0]) say(`It is ${now[0]} now`);
  wait = now.join() === was.join() ? Math.min(wait * 1.5, late) : soon; // a page whose jobs move is read more often
  mark("following");
}

// Attributes that scripts and people change themselves.
const theirs = ["hidden", "open", "value"];

// fit makes an element like another one. Elements with the same data-key are the same.
function fit(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (!theirs.includes(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const name of old.getAttributeNames()) {
    if (!theirs.includes(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  if (old.localName === "progress") old.value = fresh.value;
  const key = (n) => n?.dataset?.key;
  const known = new Map([...old.children].filter(key).map((c) => [key(c), c]));
  const wanted = new Set([...fresh.children].map(key));
  let at = old.firstChild;
  const drop = () => { const gone = at; at = at.nextSibling; gone.remove(); };
  for (const n of [...fresh.childNodes]) {
    while (key(at) && !wanted.has(key(at))) drop();
    const alike = at && !key(at) && at.nodeName === n.nodeName ? at : null;
    const is = key(n) ? known.get(key(n)) : alike;
    if (!is) { old.insertBefore(n, at); continue; }
    if (is === at) at = at.nextSibling; else old.insertBefore(is, at);
    if (is.nodeType !== Node.ELEMENT_NODE) is.data = n.data;
    else if (!is.isEqualNode(n)) fit(is, n);
  }
  while (at) drop();
}

document.addEventListener("visibilitychange", () => {
  wait = soon;
  if (!document.hidden && box.dataset.again) read();
});
mark("following");
later();
