// The payload's form, made from the type's schema; the same as JSON; the same as curl.
import { say } from "./core.js";

const $ = (id) => document.getElementById(id);
const form = $("submit"), type = $("type"), text = $("payload");
let asForm = true;
let value; // of the payload, while the form shows it; undefined = nothing

const chosen = () => type.selectedOptions[0];
const schema = () => JSON.parse(chosen()?.dataset.schema || "null");

function el(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) if (v !== undefined && v !== false) e.setAttribute(k, v === true ? "" : v);
  e.append(...children);
  return e;
}

// --- what one field of a schema looks like. Each returns its element, and set(v) hears of changes; what no field is made for is JSON.
let number = 0;
function field(s, name, v, set, needed) {
  if (s.const !== undefined) { set(s.const); return null; }
  if (s.type === "array" && s.items) return items(s, name, Array.isArray(v) ? v : [], set);
  const id = "made-" + number++;
  const label = el("label", { for: id }, s.title || name);
  let input;
  if (s.enum) {
    input = el("select", { id }, el("option", { value: "" }, "–"), ...s.enum.map((o) => el("option", { value: o, selected: o === v }, o)));
    input.addEventListener("change", () => set(input.value || undefined));
  } else if (s.type === "integer" || s.type === "number") {
    input = el("input", { id, type: "number", min: s.minimum, max: s.maximum, step: s.type === "integer" ? 1 : "any", required: needed });
    input.value = v ?? "";
    input.addEventListener("input", () => set(input.value === "" ? undefined : Number(input.value)));
  } else if (s.type === "string" && typeof (v ?? "") === "string") {
    input = s.format === "long" ? el("textarea", { id, rows: 3 }) : el("input", { id, type: s.format === "uri" ? "url" : "text", maxlength: s.maxLength, required: needed, autocomplete: "off" });
    input.value = v ?? "";
    input.addEventListener("input", () => set(input.value === "" && !needed ? undefined : input.value));
  } else {
    input = el("textarea", { id, rows: 3, spellcheck: "false" });
    input.value = v === undefined ? "" : JSON.stringify(v);
    input.addEventListener("input", () => {
      try { set(input.value.trim() ? JSON.parse(input.value) : undefined); input.removeAttribute("aria-invalid"); } catch { input.setAttribute("aria-invalid", "true"); }
    });
  }
  return el("div", { class: "field grow" }, label, input);
}

function items(s, name, v, set) {
  const rows = el("div", { class: "made-rows" });
  const box = el("div", { class: "field", role: "group", "aria-label": s.title || name }, el("span", { class: "lbl" }, s.title || name), rows);
  const tell = () => set(v.length ? [...v] : undefined);
  const redraw = () => {
    rows.replaceChildren(...v.map((item, i) => {
      const out = el("button", { class: "icon", type: "button", "aria-label": `Remove ${i + 1}` }, "Remove");
      out.addEventListener("click", () => { v.splice(i, 1); tell(); redraw(); });
      return el("div", { class: "row" }, ...item1(s.items, item, i, v, tell, redraw), out);
    }));
  };
  const add = el("button", { class: "icon", type: "button" }, "Add");
  add.addEventListener("click", () => { v.push(s.items.oneOf ? fresh(s.items.oneOf[0]) : ""); tell(); redraw(); });
  box.append(add);
  redraw();
  return box;
}

// item1 is one entry of a list: of several shapes, named by their type, or of one.
function item1(s, item, i, v, tell, redraw) {
  if (!s.oneOf) {
    const one = field({ ...s, title: String(i + 1) }, "", item, (x) => { v[i] = x ?? ""; tell(); }, true);
    one.classList.add("whole");
    return [one];
  }
  const type = String(item?.type ?? s.oneOf[0].title);
  const shape = s.oneOf.find((o) => o.title === type) || { title: type, properties: {} }; // one that there is not stays what it is: the server says so
  const id = "made-" + number++;
  const kind = el("select", { id }, ...new Set([...s.oneOf, shape].map((o) => o.title)).values().map((name) => el("option", { value: name, selected: name === type }, name)));
  kind.addEventListener("change", () => { v[i] = fresh(s.oneOf.find((o) => o.title === kind.value)); tell(); redraw(); });
  const parts = Object.entries(shape.properties).filter(([, p]) => p.const === undefined)
    .map(([k, p]) => field(p, k, item[k], (x) => { v[i] = { ...v[i], [k]: x }; tell(); }, shape.required?.includes(k)));
  return [el("div", { class: "field" }, el("label", { for: id }, `Step ${i + 1}`), kind), ...parts];
}

function fresh(shape) {
  return Object.fromEntries(Object.entries(shape.properties).map(([k, p]) => [k, p.const ?? p.default ?? ""]));
}

function drawForm() {
  const s = schema();
  const box = $("made");
  number = 0;
  box.replaceChildren();
  const had = value && typeof value === "object" && !Array.isArray(value) ? value : {};
  let drawing = true;
  const state = { ...had };
  for (const [k, p] of Object.entries(s?.properties || {})) {
    const f = field(p, k, had[k], (x) => {
      if (x === undefined) delete state[k]; else state[k] = x;
      if (!drawing) { value = { ...state }; write(); }
    }, s.required?.includes(k));
    if (f) box.append(f);
  }
  drawing = false;
}

function write() {
  text.value = value === undefined ? "" : JSON.stringify(value, null, 2);
  curl();
}

function read() {
  try {
    value = text.value.trim() ? JSON.parse(text.value) : undefined;
    wrong("");
    return true;
  } catch (e) { wrong("not JSON: " + e.message); return false; }
}

function wrong(why) {
  $("payload-wrong").hidden = !why;
  $("payload-wrong").textContent = why;
  text.toggleAttribute("aria-invalid", Boolean(why));
}

function show(form_) {
  if (form_ && !read()) return;
  asForm = form_ && Boolean(schema());
  $("made").hidden = !asForm;
  $("json-field").hidden = asForm;
  $("as-form").setAttribute("aria-pressed", String(asForm));
  $("as-json").setAttribute("aria-pressed", String(!asForm));
  if (asForm) drawForm();
}

// What the payload needs digits for that a number here has not, stays JSON.
const exact = (t) => { try { return JSON.stringify(JSON.parse(t)) === t.replace(/("(?:[^"\\]|\\.)*")|\s+/g, "$1"); } catch { return false; } };

function typeChanged(keep) {
  const o = chosen();
  $("about").textContent = o?.dataset.about || "";
  const examples = JSON.parse(o?.dataset.examples || "[]") || [];
  $("examples-field").hidden = !examples.length;
  $("examples").replaceChildren(...examples.map((x) => {
    const b = el("button", { type: "button" }, x.title);
    b.addEventListener("click", () => { value = structuredClone(x.payload); write(); wrong(""); if (asForm) drawForm(); say(x.title); });
    return b;
  }));
  if (!keep) { value = examples.length ? structuredClone(examples[0].payload) : undefined; write(); wrong(""); }
  $("made-field").hidden = !schema();
  show(keep && text.value.trim() ? asForm && exact(text.value) : asForm);
}

function curl() {
  const data = new FormData(form), body = {};
  if (type.value) body.type = type.value;
  if (text.value.trim()) { try { body.payload = JSON.parse(text.value); } catch { return; } }
  for (const n of ["maxRetries", "delaySeconds"]) if (data.get(n)) body[n] = Number(data.get(n));
  if (data.get("callbackUrl")) body.callbackUrl = data.get("callbackUrl");
  const key = data.get("idempotencyKey");
  const quote = (s) => "'" + s.replaceAll("'", "'\\''") + "'";
  $("curl").textContent = `curl -X POST ${form.dataset.base}/${String(data.get("tier")).toLowerCase()}/submit \\\n  -H 'Content-Type: application/json' \\\n` +
    (key ? `  -H ${quote("Idempotency-Key: " + key)} \\\n` : "") + "  -d " + quote(JSON.stringify(body));
}

type.addEventListener("change", () => typeChanged(false));
$("as-form").addEventListener("click", () => show(true));
$("as-json").addEventListener("click", () => show(false));
text.addEventListener("input", () => { read(); curl(); });
form.addEventListener("input", curl);
form.addEventListener("submit", (e) => {
  if (!asForm && !read()) { e.preventDefault(); text.focus(); return; }
  $("sending").textContent = "sending";
});
addEventListener("pageshow", () => { $("sending").textContent = ""; });
$("curl-box").hidden = false;
typeChanged(Boolean(text.value.trim()) || document.querySelector(".wrong:not([hidden])") !== null);
curl();
