// The stage of /demo: where each job stands, drawn from what the queue told. It knows nothing that no event said.
import { hue } from "./format.js";

const NS = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);
const lanes = { PAID: 104, UNPAID: 212, PUBLIC: 320 }; // the middle of a lane
const laneRight = 642, between = 32, inRow = 9;
const slotX = 756, slotY = (i) => 94 + 108 * i;

export class Stage {
  constructor(slots, capacity) {
    this.slots = slots;
    this.limit = capacity;
    this.clear();
  }

  clear() {
    $("st-tokens").replaceChildren();
    this.jobs = new Map(); // id -> {el, n, tier, place, slot, worker}
    this.owner = []; // the worker of each slot
    for (const slot of $("st-slots").children) { slot.classList.remove("late", "beats"); slot.querySelector("[data-worker]").textContent = ""; }
    this.count = { refused: 0, results: 0, dead: 0, sql: 0 };
    this.gate({ open: true, failures: 0, threshold: 0 });
    this.capacity({ used: 0, limit: this.limit });
    this.draw();
  }

  job(e) {
    let j = this.jobs.get(e.job);
    if (j) return j;
    const el = document.createElementNS(NS, "g");
    el.setAttribute("class", "tok " + hue(e.tier || ""));
    const circle = document.createElementNS(NS, "circle");
    circle.setAttribute("r", "14");
    const text = document.createElementNS(NS, "text");
    text.setAttribute("y", "5");
    text.textContent = this.jobs.size + 1;
    const title = document.createElementNS(NS, "title");
    title.textContent = `${e.tier} ${e.job}`;
    el.append(title, circle, text);
    j = { el, n: this.jobs.size + 1, tier: e.tier, place: "client" };
    this.jobs.set(e.job, j);
    this.move(el, 60, 272);
    $("st-tokens").append(el);
    el.getBoundingClientRect(); // the way begins here
    return j;
  }

  // apply draws one event. What an event does not name stays.
  apply(e) {
    switch (e.kind) {
      case "began": return this.clear();
      case "gate.changed": return this.gate(e.gate);
      case "capacity.changed": return this.capacity(e.capacity);
      case "job.refused": this.count.refused++; if (e.job) { const j = this.job(e); j.place = "refused"; j.el.classList.add("out"); } break;
      case "job.accepted": this.job(e).place = "door"; break;
      case "job.scheduled": this.leave(this.job(e)).place = "scheduled"; break;
      case "queue.pushed":
      case "job.requeued": this.back(this.job(e)).place = "lane"; break;
      case "job.claimed": this.take(this.job(e), e.worker); break;
      case "lease.beat": this.beat(this.jobs.get(e.job)); break;
      case "lease.expired": this.slot(this.jobs.get(e.job)?.slot)?.classList.add("late"); break;
      case "job.completed": this.leave(this.job(e)).place = "results"; this.count.results++; break;
      case "job.dead": this.leave(this.job(e)).place = "dead"; this.count.dead++; break;
      case "job.cancelled": this.leave(this.job(e)).place = "gone"; break;
      case "job.archived": this.count.sql++; break;
      default: return;
    }
    this.draw();
  }

  // back: a job that was dead and lives again is no dead letter any more.
  back(j) {
    if (j.place === "dead") this.count.dead--;
    return this.leave(j);
  }

  // take gives a job one of its worker's slots. A worker claims a little ahead, while an ending is on its way: such a job waits in its hand.
  take(j, worker) {
    this.leave(j);
    j.worker = worker;
    j.place = "hand";
    const busy = new Set([...this.jobs.values()].map((o) => o.slot));
    const free = [...Array(this.slots).keys()].filter((i) => !busy.has(i));
    const i = free.find((n) => this.owner[n] === worker) ?? free.find((n) => !this.owner[n]);
    if (i === undefined) return;
    j.slot = i;
    j.place = "slot";
    this.owner[i] = worker;
    this.slot(i).querySelector("[data-worker]").textContent = worker;
  }

  leave(j) {
    const slot = this.slot(j.slot);
    if (slot) slot.classList.remove("late", "beats");
    delete j.slot;
    if (slot) {
      const waits = [...this.jobs.values()].find((o) => o.place === "hand" && o.worker === j.worker && o !== j);
      if (waits) this.take(waits, waits.worker);
    }
    return j;
  }

  slot(i) { return i === undefined ? null : $("st-slots").children[i]; }

  beat(j) {
    const slot = this.slot(j?.slot);
    if (!slot) return;
    slot.classList.remove("beats", "late");
    slot.getBoundingClientRect();
    slot.classList.add("beats");
  }

  gate(g) {
    $("st-gate").setAttribute("class", "gateway " + (g.open ? "is-open" : "is-shut"));
    $("st-gate-word").textContent = g.open ? "open" : "closed";
    $("st-gate-fails").textContent = g.failures ? `${g.failures} ${g.failures === 1 ? "error" : "errors"}` : "";
  }

  capacity(c) {
    const h = c.limit > 0 ? Math.min(236 * c.used / c.limit, 236) : 0;
    $("st-cap").setAttribute("height", h);
    $("st-cap").setAttribute("y", 334 - h);
    $("st-cap-text").textContent = `${c.used} of ${c.limit}`;
  }

  draw() {
    const rows = {};
    const all = [...this.jobs.values()].sort((a, b) => a.n - b.n);
    const first = Object.keys(lanes).map((tier) => all.find((j) => j.place === "lane" && j.tier === tier)).find(Boolean); // who is claimed next
    for (const j of all) {
      const i = rows[j.place + (j.place === "lane" ? j.tier : "")] ??= { n: 0 };
      const k = i.n++;
      switch (j.place) {
        case "door": this.move(j.el, 180, 216); break;
        case "lane": this.move(j.el, laneRight - between * (k % inRow), (lanes[j.tier] ?? 320) - 1 + 16 * Math.floor(k / inRow)); break;
        case "scheduled": this.move(j.el, 650 - between * k, 424); break;
        case "slot": this.move(j.el, slotX, slotY(j.slot)); break;
        case "hand": this.move(j.el, 700, 66 + 30 * k); break;
        case "results": this.move(j.el, 928, 112); break;
        case "dead": this.move(j.el, 886 + 30 * (k % 4), 366 + 30 * Math.floor(k / 4)); break;
        case "refused": this.move(j.el, 32 + 30 * (k % 3), 266 + 30 * Math.floor(k / 3)); break;
        default: break;
      }
      j.el.classList.toggle("next", j === first);
      j.el.classList.toggle("gone", j.place === "results" || j.place === "gone");
    }
    $("st-refused").textContent = `${this.count.refused} refused`;
    $("st-results").textContent = this.count.results;
    $("st-dead").textContent = this.count.dead;
    $("st-sql").textContent = this.count.sql;
  }

  move(el, x, y) { el.style.transform = `translate(${x}px, ${y}px)`; }
}
