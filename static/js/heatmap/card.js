// The hover card: at once what the map knows of a GPU, and a moment later what the console knows.
import { age, quantity } from "../figures.js";
import { el, state as stateWord } from "../kit.js";
import { shortModel } from "./layout.js";
import { meter } from "../meter.js";
import { COUNT, HEADROOM, IDLE, LOOK, MEMORY, P99, SM_ACTIVITY, STALE, UNREACHABLE, UNSUPPORTED } from "../wire.js";
import { stateOf } from "../store.js";

const SHOWN = ["online_p99", "memory", "sm_activity"];
const ASK_AFTER_MS = 150, ASK_AGAIN_MS = 2_000;
const NODE_STATES = ["OVERLIMIT", "QUARANTINED", "GUARDED", "COOLDOWN", "UNHEALTHY", "DISABLED", "INIT", "HEALTHY"];
const SILENT = { [STALE]: "Stale", [UNREACHABLE]: "Unreachable", [UNSUPPORTED]: "Unsupported" };

export class Card {
  constructor(box, heat, store) {
    Object.assign(this, { box, heat, store, row: null, details: null, timer: 0 });
  }

  /** `node`: the row is a node, told by what the map knows of it. */
  show(row, node = null) {
    const moved = row !== this.row || node !== this.node;
    this.node = node;
    Object.assign(this, { row, details: moved ? null : this.details });
    this.box.hidden = false;
    this.draw();
    if (!moved) return;
    clearTimeout(this.timer);
    if (node === null) this.timer = setTimeout(() => this.ask(row), ASK_AFTER_MS);
  }

  hide() {
    clearTimeout(this.timer);
    this.row = null;
    this.box.hidden = true;
  }

  /** New values of the feed, for the GPU that is shown. */
  refresh() {
    if (this.row !== null) this.draw();
  }

  async ask(row) {
    const answer = await fetch(`/api/v1/gpus/${this.store.layout.id(row)}/live/`).catch(() => null);
    if (row !== this.row) return;
    if (answer?.ok) this.details = await answer.json();
    if (row !== this.row) return;
    this.draw();
    this.timer = setTimeout(() => this.ask(row), ASK_AGAIN_MS);
  }

  draw() {
    if (this.node !== null) return this.drawNode();
    const { row, store, details } = this, { layout } = store, look = store.gpus.isKnown(row) ? store.byte(row, LOOK) : null, silent = SILENT[look];
    const head = el("div", { class: "row-x tip-head" },
      el("div", { class: "grow" }, el("h3", {}, layout.name(row)), el("span", { class: "qq" }, `${layout.pool(row)} · ${shortModel(layout.model(row))}`)),
      this.state(store.gpus, silent, () => store.state(row)));
    const body = silent ? [el("p", { class: "q" }, details?.silence || explain(look, layout.hasAgent(row)))] : [this.bars(), this.words(look)];
    const foot = el("div", { class: "row-x tip-foot" }, el("span", { class: "tn" }, details?.age_s == null ? "" : age(details.age_s)), el("span", { class: "grow" }),
      el("span", {}, el("kbd", {}, "↵"), " open"), el("span", {}, el("kbd", {}, "← ↑ → ↓"), " move"));
    this.box.replaceChildren(head, ...body, foot);
    this.place();
  }

  /** From afar: how many of a node's GPUs are how, the worst first. */
  drawNode() {
    const { row, node, store: { nodes } } = this, silent = nodes.isKnown(row) && SILENT[nodes.byte(row, LOOK)];
    const head = el("div", { class: "row-x tip-head" },
      el("div", { class: "grow" }, el("h3", {}, node.name), el("span", { class: "qq" }, `${node.pool} · ${node.gpus} GPU${node.gpus === 1 ? "" : "s"}`)),
      this.state(nodes, silent, () => stateOf(nodes, row)));
    const counted = (kind, word) => (nodes.isKnown(row) && nodes.byte(row, COUNT[kind]) ? [el("dt", {}, word), el("dd", {}, String(nodes.byte(row, COUNT[kind])))] : []);
    const states = NODE_STATES.flatMap((kind) => counted(kind, stateWord(kind)));
    const looks = [["IDLE", "Idle, no process"], ["UNSUPPORTED", "Unsupported"], ["STALE", "Stale > 5 s"], ["UNREACHABLE", "Unreachable"], ["GUESTS", "Offline guests"]].flatMap(([kind, word]) => counted(kind, word));
    const foot = el("div", { class: "row-x tip-foot" }, el("span", {}, "Worst GPU colours the tile"), el("span", { class: "grow" }), el("span", {}, el("kbd", {}, "↵"), " zoom in"));
    this.box.replaceChildren(head, el("dl", { class: "kv counts" }, ...states, ...looks), foot);
    this.place();
  }

  /** The word of a state, or of a silence; "…" until the row is known. */
  state(rows, silent, name) {
    return rows.isKnown(this.row) ? stateWord(silent ? "NO_DATA" : name(), { word: silent, tag: true }) : el("span", { class: "qq" }, "…");
  }

  bars() {
    const { store, row, details } = this;
    const known = details?.signals.filter(({ signal }) => SHOWN.includes(signal));
    const rows = known ?? [
      { name: "Online p99", field: P99, unit: "% of SLO", most: 200, digits: 0 },
      { name: "Memory", field: MEMORY, unit: "%", most: 100, digits: 0 },
      { name: "SM activity", field: SM_ACTIVITY, unit: "%", most: 100, digits: 0 },
    ].map((one) => ({ ...one, value: store.value(row, one.field), pending: !store.gpus.isWatched(row, one.field) }));
    return el("div", { class: "bars" }, ...rows.map((one) => el("div", { class: "hb" },
      el("span", { class: "q" }, one.name), meter(one.value, one), el("span", { class: one.value == null ? "num none" : "num" }, reading(one)))));
  }

  words(look) {
    const { store, row, details } = this, { layout } = store, service = layout.service(row), headroom = details?.headroom_percent;
    const nearest = details?.signals.find(({ signal }) => signal === details.nearest_signal)?.name;
    const online = details?.online?.over_slo ? stateWord("OVERLIMIT", { word: `${service} over its SLO` }) : service ?? "none known";
    const guest = details?.guest ? `${details.guest.job}, duty ${quantity(details.guest.duty_percent, "%")}` : details || look === IDLE ? "none" : "…";
    const pair = (key, value) => [el("dt", {}, key), el("dd", {}, value)];
    return el("dl", { class: "kv" },
      ...pair("Headroom", el("b", {}, headroom == null ? this.headroomSeen() : `${quantity(headroom, "%")}${nearest ? `, ${nearest[0].toLowerCase()}${nearest.slice(1)} is nearest` : ""}`)),
      ...pair("Online", online), ...pair("Offline guest", guest));
  }

  /** Until the console has answered: what the map was told, if it was. */
  headroomSeen() {
    const { store: { gpus }, row, details } = this;
    return details || gpus.isWatched(row, HEADROOM) ? quantity(gpus.isWatched(row, HEADROOM) ? gpus.value(row, HEADROOM) : null, "%") : "…";
  }

  /** Beside the cell where there is room, else under or over it: never on it, nor on its neighbours. */
  place() {
    const { box, heat, row } = this, { canvas } = heat, cell = heat.box(row);
    const { left, top } = besides(cell, box.offsetWidth, box.offsetHeight, canvas.clientWidth, canvas.clientHeight);
    box.style.left = `${canvas.offsetLeft + left}px`;
    box.style.top = `${canvas.offsetTop + top}px`;
  }
}

/** Where a card of w × h stands for a cell, in a map of width × height: right, left, under or over it, the first that fits. */
export function besides(cell, w, h, width, height) {
  const gap = 12 + cell.pitch, right = cell.x + cell.width + gap, left = cell.x - gap - w;
  const within = (value, most) => Math.max(8, Math.min(value, most - 8));
  if (right + w <= width) return { left: right, top: within(cell.y - 10, height - h) };
  if (left >= 0) return { left, top: within(cell.y - 10, height - h) };
  const under = cell.y + cell.height + gap, over = cell.y - gap - h;
  return { left: within(cell.x + cell.width / 2 - w / 2, width - w), top: over < 0 || under + h <= height ? under : over };
}

/** "48 / 60 ms": value and limit where there is one. */
function reading({ value, unit, digits, evict_at: limit, pending }) {
  if (pending) return "…";
  if (value == null) return quantity(null);
  return limit == null ? quantity(value, unit, digits) : `${quantity(value, "", digits)} / ${quantity(limit, unit, digits)}`;
}

function explain(look, hasAgent) {
  if (!hasAgent) return "Imported: no agent on this node, so there is no live data.";
  if (look === STALE) return "Not heard for more than 5 s. The colour is the last value, not the present one.";
  if (look === UNREACHABLE) return "No answer for more than 30 s. The agent goes on protecting online work by itself.";
  return "This card or its driver reports neither SM activity nor a headroom.";
}
