// Lists whose rows are kept by their key, so that what stays does not flicker and a selection survives. Rows are copies of the page's own.

export function list(body, template, fill) {
  const rows = new Map();
  for (const el of body.querySelectorAll(":scope > [data-key]")) rows.set(el.dataset.key, part(el));
  return (items) => {
    const seen = new Set();
    let at = body.firstElementChild;
    for (const item of items) {
      const key = item.key;
      seen.add(key);
      let row = rows.get(key);
      if (!row) {
        row = part(template.content.firstElementChild.cloneNode(true));
        row.el.dataset.key = key;
        rows.set(key, row);
      }
      fill(row, item);
      if (row.el === at) at = at.nextElementSibling; else body.insertBefore(row.el, at);
    }
    for (const [key, row] of rows) if (!seen.has(key)) { row.el.remove(); rows.delete(key); }
  };
}

function part(el) {
  const fields = {};
  for (const f of [el, ...el.querySelectorAll("[data-f]")]) if (f.dataset.f) fields[f.dataset.f] = f;
  return { el, fields };
}

export function put(row, name, text) {
  const f = row.fields[name];
  text = String(text);
  if (f && f.textContent !== text) f.textContent = text;
}

export function link(row, id, short) {
  const a = row.fields.id;
  if (a.title === id) return;
  a.textContent = short(id);
  a.title = id;
  a.href = "/poll?jobId=" + encodeURIComponent(id);
}
