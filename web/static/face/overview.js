// The counts along the diagram move while somebody looks.
import { follow } from "./live.js";
import { binder } from "./bind.js";
import { gate } from "./core.js";

const flow = document.getElementById("flow");
const edges = [...flow.querySelectorAll("[data-flow]")];
const write = binder();

follow(({ snapshot }) => {
  if (!snapshot) return;
  write(snapshot);
  gate(snapshot.gate);
  document.getElementById("flow-gate").textContent = snapshot.gate.open ? "open" : "closed";
  const moving = { in: snapshot.tiers.some((t) => t.submittedPerSecond > 0), run: snapshot.slots.running > 0, out: snapshot.perSecond > 0 };
  for (const e of edges) e.classList.toggle("on", moving[e.dataset.flow]);
});
