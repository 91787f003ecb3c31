// What a snapshot says is written where the page shows it: data-b names the value, data-as its text.
import * as format from "./format.js";

export function binder() {
  const bound = [...document.querySelectorAll("[data-b]")].map((el) => ({ el, path: el.dataset.b.split("."), as: format[el.dataset.as] || String, was: el.textContent }));
  return (snapshot) => {
    const all = { ...snapshot, tiers: Object.fromEntries(snapshot.tiers.map((t) => [t.tier, t])), submittedPerSecond: snapshot.tiers.reduce((n, t) => n + t.submittedPerSecond, 0) };
    for (const b of bound) {
      const value = b.path.reduce((v, key) => v?.[key], all);
      if (value === undefined) continue;
      const text = b.as(value);
      if (text !== b.was) b.el.textContent = b.was = text;
    }
  };
}
