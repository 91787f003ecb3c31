// The texts of numbers, as web/format.go writes them: what is replaced looks as it did.

export const count = (n) => Math.round(n || 0).toString().replace(/\B(?=(\d{3})+$)/g, ",");

export function span(s) {
  if (!(s >= 0)) return "0 ms";
  if (s < 0.00995) return (s * 1000).toFixed(1).replace(/\.0$/, "") + " ms";
  if (s < 0.9995) return (s * 1000).toFixed(0) + " ms";
  if (s < 9.995) return s.toFixed(2) + " s";
  if (s < 59.95) return s.toFixed(1) + " s";
  return long(Math.round(s));
}

const two = (a, big, b, small) => (b ? `${a} ${big} ${b} ${small}` : `${a} ${big}`);

function long(n) {
  if (n < 3600) return two(Math.floor(n / 60), "min", n % 60, "s");
  if (n < 86400) return two(Math.floor(n / 3600), "h", Math.floor((n % 3600) / 60), "min");
  return two(Math.floor(n / 86400), "d", Math.floor((n % 86400) / 3600), "h");
}

export const span0 = (s) => (s ? span(s) : "–");

export const neat = (s) => (s < 1 || s >= 60 ? span(s) : `${s} s`);

export function rate(n) {
  if (!(n > 0)) return "0";
  if (n < 0.095) return n.toFixed(2);
  return n < 99.5 ? n.toFixed(1) : count(n);
}

export function size(n) {
  if (n < 1024) return `${n} B`;
  return n < 1 << 20 ? (n / 1024).toFixed(1) + " KiB" : (n / (1 << 20)).toFixed(1) + " MiB";
}

export function ago(s) {
  const text = (x) => (x < 60 ? `${Math.floor(x)} s` : long(Math.floor(x)));
  if (s < -1) return "in " + text(-s);
  return s < 1 ? "now" : text(s) + " ago";
}

export function due(s, longest) {
  return String(Math.ceil(Math.max(s, 0))).padStart(String(Math.ceil(longest)).length, "\u2007") + " s";
}

export const clock = (iso) => (iso ? iso.slice(11, 19) : "");

export const short = (id) => (id && id.length === 36 ? "…" + id.slice(24) : id || "");

export const hue = (tier) => (["PAID", "UNPAID", "PUBLIC"].includes(tier) ? "t-" + tier.toLowerCase() : "t-other");

export const tone = (kind) => ({ dead: "is-bad", crashed: "is-warn", stuck: "is-warn", gate: "is-warn" })[kind] || "is-idle";
