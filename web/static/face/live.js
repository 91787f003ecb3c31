// The stream of snapshots as a page sees it: heard({snapshot}) and heard({feed}). It pauses, goes on, says when it is old, and heals.
import { ago } from "./format.js";
import { gate } from "./core.js";

const $ = (id) => document.getElementById(id);
const staleAfter = 5000;

export function follow(heard) {
  const { live: url, worker } = document.body.dataset;
  const button = $("live");
  let last = 0, began = Date.now(), paused = false, ill = false, reason = "", stop = () => {};

  const take = (m) => {
    if (paused) return;
    if (m.type === "state") { reason = m.reason; ill = m.state === "stale"; }
    if (m.type === "snapshot") { last = Date.now(); reason = ""; ill = false; heard({ snapshot: JSON.parse(m.data) }); }
    if (m.type === "feed") heard({ feed: { ...JSON.parse(m.data), id: m.id } });
    show();
  };

  function show() {
    const quiet = Date.now() - (last || began);
    const state = paused ? "paused" : ill || quiet >= staleAfter ? "stale" : last ? "live" : "connecting";
    if (button.dataset.state !== state) {
      button.dataset.state = state;
      $("live-text").textContent = state;
      button.setAttribute("aria-pressed", String(paused));
      if (state === "stale" && $("gate-word").textContent === "open") gate(null); // the next snapshot says it, or the feed
    }
    const old = state === "stale";
    if ($("stale").hidden === old) $("stale").hidden = !old;
    if (old) $("stale-text").textContent = `They are from ${ago(Math.max(quiet / 1000, 1))}${reason ? ": " + reason : ""}. They go on by themselves.`;
  }

  function start() {
    began = Date.now();
    last = 0;
    ill = false;
    stop = shared() || alone();
    show();
  }

  // shared listens through the one stream of this browser; null where there is no such thing.
  function shared() {
    if (!("SharedWorker" in window)) return null;
    let port;
    try { port = new SharedWorker(worker).port; } catch { return null; }
    port.onmessage = (e) => take(e.data);
    port.postMessage({ type: "join", url });
    const here = setInterval(() => port.postMessage({ type: "here" }), 20000);
    return () => { clearInterval(here); port.postMessage({ type: "leave" }); port.close(); };
  }

  function alone() {
    let source, timer;
    const open = () => {
      source = new EventSource(url);
      for (const type of ["snapshot", "feed", "resync"]) source.addEventListener(type, (e) => take({ type, data: e.data, id: e.lastEventId }));
      source.addEventListener("stale", (e) => take({ type: "state", state: "stale", reason: JSON.parse(e.data).reason }));
      source.addEventListener("bye", () => { source.close(); timer = setTimeout(open, 2000); });
      source.onerror = () => { if (source.readyState === EventSource.CLOSED) timer = setTimeout(open, 3000); };
    };
    open();
    return () => { clearTimeout(timer); source.close(); };
  }

  function toggle() {
    paused = !paused;
    if (paused) stop(); else start();
    show();
  }
  button.addEventListener("click", toggle);
  addEventListener("tierq:pause", toggle);
  addEventListener("pagehide", () => stop());
  addEventListener("pageshow", (e) => { if (e.persisted && !paused) start(); });
  setInterval(show, 1000);
  start();
  return { paused: () => paused, moves: () => button.dataset.state === "live" };
}
