// The hover card: at once what the map knows of a GPU, and a moment later what the console knows.
import { age, quantity } from "../figures.js";
import { el, state as stateWord } from "../kit.js";
import { shortModel } from "./layout.js";
import { meter } from "../meter.js";
import { IDLE, LOOK, MEMORY, P99, SM_ACTIVITY, STALE, UNREACHABLE, UNSUPPORTED } from "../wire.js";

const SHOWN = ["online_p99", "memory", "sm_activity"];
const ASK_AFTER_MS = 150, ASK_AGAIN_MS = 2_000;
const SILENT = { [STALE]: "Stale", [UNREACHABLE]: "Unreachable", [UNSUPPORTED]: "Unsupported" };

export class Card {
  constructor(box, heat, store) {
    Object.assign(this, { box, heat, store, row: null, details: null, timer: 0 });
  }

  show(row) {
    const moved = row !== this.row;
    Object.assign(this, { row, details: moved ? null : this.details });
    this.box.hidden = false;
    this.draw();
    if (!moved) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(row), ASK_AFTER_MS);
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
    const { row, store, details } = this, { layout } = store, look = store.byte(row, LOOK), silent = SILENT[look];
    const head = el("div", { class: "row-x tip-head" },
      el("div", { class: "grow" }, el("h3", {}, layout.name(row)), el("span", { class: "qq" }, `${layout.pool(row)} · ${shortModel(layout.model(row))}`)),
      stateWord(silent ? "NO_DATA" : store.state(row), { word: silent, tag: true }));
    const body = silent ? [el("p", { class: "q" }, details?.silence || explain(look, layout.hasAgent(row)))] : [this.bars(), this.words(look)];
    const foot = el("div", { class: "row-x tip-foot" }, el("span", { class: "tn" }, details?.age_s == null ? "" : age(details.age_s)), el("span", { class: "grow" }),
      el("span", {}, el("kbd", {}, "↵"), " open"), el("span", {}, el("kbd", {}, "← ↑ → ↓"), " move"));
    this.box.replaceChildren(head, ...body, foot);
    this.place();
  }

  bars() {
    const { store, row, details } = this;
    const known = details?.signals.filter(({ signal }) => SHOWN.includes(signal));
    const rows = known ?? [
      { name: "Online p99", value: store.value(row, P99), unit: "% of SLO", most: 200, digits: 0 },
      { name: "Memory", value: store.value(row, MEMORY), unit: "%", most: 100, digits: 0 },
      { name: "SM activity", value: store.value(row, SM_ACTIVITY), unit: "%", most: 100, digits: 0 },
    ];
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
      ...pair("Headroom", el("b", {}, headroom == null ? quantity(headroom) : `${quantity(headroom, "%")}${nearest ? `, ${nearest[0].toLowerCase()}${nearest.slice(1)} is nearest` : ""}`)),
      ...pair("Online", online), ...pair("Offline guest", guest));
  }

  /** Beside the cell, on the side where there is room and where the card hides as few neighbours as possible. */
  place() {
    const { box, heat, row } = this, { x, y, size } = heat.placed, wide = box.offsetWidth, room = heat.canvas.clientWidth;
    const left = heat.canvas.offsetLeft, right = x[row] + size + 16;
    box.style.left = `${left + (right + wide <= room ? right : Math.max(0, x[row] - wide - 16))}px`;
    box.style.top = `${heat.canvas.offsetTop + Math.max(8, Math.min(y[row] - 10, heat.canvas.clientHeight - box.offsetHeight - 8))}px`;
  }
}

/** "48 / 60 ms": value and limit where there is one. */
function reading({ value, unit, digits, evict_at: limit }) {
  if (value == null) return quantity(null);
  return limit == null ? quantity(value, unit, digits) : `${quantity(value, "", digits)} / ${quantity(limit, unit, digits)}`;
}

function explain(look, hasAgent) {
  if (!hasAgent) return "Imported: no agent on this node, so there is no live data.";
  if (look === STALE) return "Not heard for more than 5 s. The colour is the last value, not the present one.";
  if (look === UNREACHABLE) return "No answer for more than 30 s. The agent goes on protecting online work by itself.";
  return "This card or its driver reports neither SM activity nor a headroom.";
}
