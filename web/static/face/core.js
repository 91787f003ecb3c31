// On every page: the theme, the keys, copying, and pages that come back by themselves.
const $ = (id) => document.getElementById(id);
export const say = (text) => { $("said").textContent = text; };

// --- theme
const themes = ["auto", "light", "dark"];
const root = document.documentElement;
const themeNow = () => root.dataset.theme || "auto";
function nextTheme() {
  const to = themes[(themes.indexOf(themeNow()) + 1) % themes.length];
  if (to === "auto") delete root.dataset.theme; else root.dataset.theme = to;
  try { localStorage.setItem("tierq-theme", to); } catch { /* it holds for this page only */ }
  showTheme();
  dispatchEvent(new Event("tierq:theme"));
}
function showTheme() { $("theme-text").textContent = themeNow(); }
showTheme();
$("theme").addEventListener("click", nextTheme);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("tierq:theme")));

// --- keys
const help = $("help");
$("help-open").hidden = false;
$("help-open").addEventListener("click", () => help.showModal());
const places = { o: "/", s: "/submit", p: "/poll", d: "/dashboard", j: "/dashboard/jobs", x: "/dashboard/dead", w: "/demo", a: "/about" };
let went = 0; // when g was pressed
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.("input, textarea, select") || help.open) return;
  if (e.key === "g") { went = e.timeStamp; return; }
  if (e.timeStamp - went < 1500 && places[e.key]) { location.href = places[e.key]; e.preventDefault(); return; }
  went = 0;
  const search = document.querySelector("[data-search]");
  if (e.key === "/" && search) { search.focus(); search.select(); } else if (e.key === "t") nextTheme();
  else if (e.key === "?") help.showModal();
  else if (e.key === "r") dispatchEvent(new Event("tierq:pause"));
  else return;
  e.preventDefault();
});

// --- copying; plain http has no clipboard, so there is the old way as well
async function copy(text) {
  try { await navigator.clipboard.writeText(text); return true; } catch { /* below */ }
  const box = document.createElement("textarea");
  box.value = text;
  box.className = "sr";
  document.body.append(box);
  box.select();
  let done = false;
  try { done = document.execCommand("copy"); } catch { /* it did not */ }
  box.remove();
  return done;
}
document.addEventListener("click", async (e) => {
  const b = e.target.closest("[data-copy], [data-copy-from], [data-copy-link]");
  if (!b) return;
  const text = b.dataset.copy ?? (b.dataset.copyFrom ? $(b.dataset.copyFrom).textContent : location.href);
  const was = b.dataset.was ??= b.textContent;
  const done = await copy(text);
  b.textContent = done ? "Copied" : "Not copied";
  say(b.textContent);
  setTimeout(() => { b.textContent = was; }, 1400);
});
export function ready(within) {
  for (const b of within.querySelectorAll("[data-copy], [data-copy-from], [data-copy-link]")) b.hidden = false;
}
ready(document);

// --- a page that could not be made comes back when it can: the address is asked until it answers well
const ill = document.querySelector("[data-heal]");
if (ill) {
  const wait = Number(ill.dataset.heal) || 3000;
  const again = async () => {
    let well = false;
    try {
      const res = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (res.ok) well = !new DOMParser().parseFromString(await res.text(), "text/html").querySelector("[data-heal]");
    } catch { /* the server is away as well */ }
    // A form that somebody fills in is not taken away from him.
    if (well && !document.activeElement?.closest("form")) location.replace(location.href);
    else setTimeout(again, wait);
  };
  setTimeout(again, wait);
}

// --- the gate
// gate shows the gate; nothing = nobody says.
export function gate(g) {
  const pill = $("gate");
  const word = $("gate-word");
  const now = g ? (g.open ? "open" : "closed") : "unknown";
  if (word.textContent !== now) word.textContent = now;
  pill.className = "pill " + { open: "is-ok", closed: "is-bad", unknown: "is-idle" }[now];
  pill.title = { open: "submits are let in", closed: g?.reason, unknown: "not known now" }[now];
}

// Where no stream tells of the gate, a closed one is asked about until it opens.
async function knock() {
  try { if ((await fetch("/readyz")).ok) { gate({ open: true }); if ($("gate-note")) $("gate-note").hidden = true; return; } } catch { /* the server is away as well */ }
  setTimeout(knock, 3000);
}
if (!$("live") && $("gate-word").textContent === "closed") setTimeout(knock, 3000);
