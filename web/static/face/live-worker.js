// One stream for all tabs of a browser: HTTP/1.1 has six connections per server, and twenty tabs have one of them.
let source = null, url = "", retry = 2000, timer = 0;
let last = ""; // how far the feed was read: a new stream begins there
const ports = new Map(); // port -> when it was last heard of
const feed = [];
let snapshot = null, came = 0, state = { type: "state", state: "connecting", reason: "" };

const tell = (m) => { for (const port of ports.keys()) port.postMessage(m); };
function become(word, reason) { state = { type: "state", state: word, reason: reason || "" }; tell(state); }

function open() {
  clearTimeout(timer);
  if (source || !ports.size) return;
  const at = new URL(url, location.href);
  if (last) at.searchParams.set("after", last);
  source = new EventSource(at);
  const hear = (type, then) => source.addEventListener(type, (e) => { if (e.lastEventId) last = e.lastEventId; then(e); });
  source.onopen = () => { retry = 2000; };
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) return become("connecting", "the stream broke off"); // it comes again by itself
    again("the server does not answer");
  };
  hear("snapshot", (e) => {
    snapshot = { type: "snapshot", data: e.data };
    came = Date.now();
    if (state.state !== "live") become("live");
    tell(snapshot);
  });
  hear("feed", (e) => {
    const m = { type: "feed", id: e.lastEventId, data: e.data };
    if (feed.push(m) > 500) feed.shift();
    tell(m);
  });
  hear("stale", (e) => become("stale", JSON.parse(e.data).reason));
  hear("resync", () => tell({ type: "resync" }));
  hear("bye", () => again("the server stops"));
}

function again(reason) {
  close();
  become("connecting", reason);
  timer = setTimeout(open, retry);
  retry = Math.min(retry * 2, 15000);
}

function close() { clearTimeout(timer); source?.close(); source = null; }

// leave forgets a tab; with the last one goes what would be old when another comes.
function leave(port) {
  ports.delete(port);
  if (ports.size) return;
  close();
  state = { type: "state", state: "connecting", reason: "" };
}

setInterval(() => { for (const [port, at] of ports) if (Date.now() - at > 200000) leave(port); }, 30000);

onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data.type === "leave") return leave(port);
    const known = ports.has(port);
    ports.set(port, Date.now());
    if (known) return; // else it joins, or was frozen for so long that it was forgotten
    if (data.url) url = data.url;
    for (const m of feed) port.postMessage(m);
    if (state.state === "live" && Date.now() - came < 5000) port.postMessage(snapshot); // an older one is not what the page takes it for
    port.postMessage(state);
    open();
  };
};
