// One stream for all tabs of a browser: HTTP/1.1 has six connections per server, and twenty tabs have one of them.
let source = null, url = "", retry = 2000, timer = 0;
const ports = new Map(); // port -> when it was last heard of
const feed = [];
let snapshot = null, state = { type: "state", state: "connecting", reason: "" };

const tell = (m) => { for (const port of ports.keys()) port.postMessage(m); };
function become(word, reason) { state = { type: "state", state: word, reason: reason || "" }; tell(state); }

function open() {
  clearTimeout(timer);
  if (source || !ports.size) return;
  source = new EventSource(url);
  source.onopen = () => { retry = 2000; };
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) return become("connecting", "the stream broke off"); // it comes again by itself
    again();
  };
  source.addEventListener("snapshot", (e) => { snapshot = { type: "snapshot", data: e.data }; tell(snapshot); });
  source.addEventListener("feed", (e) => {
    const m = { type: "feed", id: e.lastEventId, data: e.data };
    if (feed.push(m) > 500) feed.shift();
    tell(m);
  });
  source.addEventListener("stale", (e) => become("stale", JSON.parse(e.data).reason));
  source.addEventListener("resync", () => tell({ type: "resync" }));
  source.addEventListener("bye", () => { become("connecting", "the server stops"); again(); });
}

function again() {
  close();
  become("connecting", "the server does not answer");
  timer = setTimeout(open, retry);
  retry = Math.min(retry * 2, 15000);
}

function close() { clearTimeout(timer); source?.close(); source = null; }

function leave(port) { ports.delete(port); if (!ports.size) close(); }

setInterval(() => { for (const [port, at] of ports) if (Date.now() - at > 200000) leave(port); }, 30000);

onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data.type === "leave") return leave(port);
    const known = ports.has(port);
    ports.set(port, Date.now());
    if (data.type !== "join" || known) return;
    url = data.url;
    port.postMessage(state);
    for (const m of feed) port.postMessage(m);
    if (snapshot && source) port.postMessage(snapshot);
    open();
  };
};
