// The legend of the map, drawn by the map's own code; pointing at a part of it, or choosing it, keeps only its cells in colour.
import { GPU_LOOKS } from "../glyphs.js";
import { el, state as stateWord } from "../kit.js";
import { IDLE, LOOKS, STALE, UNREACHABLE, UNSUPPORTED, ZERO } from "../wire.js";
import { rampAt } from "./colour.js";
import { inks } from "./inks.js";
import { drawCell } from "./sprites.js";
import { KIND_AT } from "./tally.js";

const MARKED = ["UNHEALTHY", "GUARDED", "OVERLIMIT", "COOLDOWN", "DISABLED", "QUARANTINED"];
const OFF_SCALE = [[IDLE, "Idle, no process"], [STALE, "Stale > 5 s"], [UNREACHABLE, "Unreachable"], [UNSUPPORTED, "Unsupported"]];
const NIL = "0";
const RAMP_PX = 150, WINDOW = 0.12, STEP = 0.04; // of the ramp: what a pointer or a key chooses

export class Legend {
  /** `onBrush` is told what is brushed: { kind: "state" | "look" | "guests", name } or { kind: "range", from, to } (of the fill's unit), null for nothing; and whether it is chosen. */
  constructor(box, onBrush) {
    Object.assign(this, { box, onBrush, chosen: null, counters: new Map() });
    box.addEventListener("pointerleave", () => this.onBrush(this.chosen, true));
    box.addEventListener("keydown", (event) => event.key === "Escape" && this.choose(null));
  }

  /** For a fill in a range. */
  show(fill, range, chosen) {
    Object.assign(this, { fill, range, chosen, counters: new Map() });
    const k = inks(), unit = fill.unit ?? "", scale = group(fill.short ?? fill.word);
    if (fill.ramp) scale.append(this.part({ kind: "look", name: "ZERO" }, swatch(ZERO, rampColour(fill, k.theme, fill.loud === "low" ? 0 : 1), k), "Zero, measured"),
      el("span", { class: "it tn" }, `${range.from} ${unit}`, this.ramp(k.theme), `${range.to} ${unit}`));
    else scale.append(...Object.keys(GPU_LOOKS).filter((name) => name !== "NO_DATA").map((name) => this.part({ kind: "state", name }, null, stateWord(name))));
    const off = group("Off the scale", ...OFF_SCALE.filter(([look]) => fill.ramp || look !== IDLE).map(([look, word]) => this.part({ kind: "look", name: LOOKS[look] }, swatch(look, rampColour(fill, k.theme, 0.6), k), word)));
    const marks = group("State marks", ...MARKED.map((name) => this.part({ kind: "state", name }, null, stateWord(name))), this.part({ kind: "guests", name: "GUESTS" }, notch(k), "Offline guest"));
    this.box.replaceChildren(scale, off, el("span", { class: "cut" }), ...(fill.ramp ? [marks] : []), el("span", { class: "grow" }), el("span", { class: "qq xs hide-p" }, "Point at a part to see its cells, press it to keep them"));
  }

  /** A part that can be pointed at and chosen, with its count. */
  part(brush, picture, word) {
    const pressed = same(brush, this.chosen), count = document.createTextNode(""), button = el("button", { class: "it", type: "button", "aria-pressed": String(pressed) }, picture, word, " ", el("span", { class: "qq tn" }, count));
    this.counters.set(KIND_AT[brush.name], { node: count, button, name: brush.name, isNil: false });
    button.addEventListener("pointerenter", () => this.onBrush(brush, false));
    button.addEventListener("click", () => this.choose(same(brush, this.chosen) ? null : brush));
    return button;
  }

  choose(brush) {
    this.chosen = brush;
    for (const button of this.box.querySelectorAll("button[aria-pressed]")) button.setAttribute("aria-pressed", "false");
    this.counters.forEach(({ button, name }) => brush && brush.name === name && button.setAttribute("aria-pressed", "true"));
    this.drawWindow();
    this.onBrush(brush, true);
  }

  /** The ramp from its low to its high values; dragging over it chooses a range, arrow keys move one. */
  ramp(theme) {
    const { fill } = this, canvas = el("canvas", { width: RAMP_PX, height: 10, class: "ramp", "aria-hidden": "true" }), c = canvas.getContext("2d");
    for (let x = 0; x < RAMP_PX; x += 1) {
      c.fillStyle = rampColour(fill, theme, fill.loud === "low" ? x / (RAMP_PX - 1) : 1 - x / (RAMP_PX - 1));
      c.fillRect(x, 0, 1, 10);
    }
    this.window = el("i", { class: "window", hidden: true });
    const box = el("span", { class: "rampbox", tabindex: "0", role: "slider", "aria-label": "Values to highlight", "aria-valuemin": this.range.from, "aria-valuemax": this.range.to, "aria-valuenow": this.range.from, "aria-valuetext": "none" }, canvas, this.window);
    this.rampBox = box;
    this.listen(box);
    this.drawWindow();
    return box;
  }

  listen(box) {
    const at = (event) => Math.max(0, Math.min(1, (event.clientX - box.getBoundingClientRect().left) / box.clientWidth));
    let from = null;
    box.addEventListener("pointerdown", (event) => { from = at(event); box.setPointerCapture(event.pointerId); });
    box.addEventListener("pointermove", (event) => this.onBrush(from === null ? this.around(at(event)) : this.between(from, at(event)), false));
    box.addEventListener("pointerup", (event) => {
      const to = at(event), brush = Math.abs(to - from) < 0.03 ? this.around(to) : this.between(from, to);
      from = null;
      this.choose(same(brush, this.chosen) ? null : brush);
    });
    box.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -STEP, ArrowDown: -STEP, ArrowRight: STEP, ArrowUp: STEP }[event.key];
      if (!step) return;
      event.preventDefault();
      this.choose(this.around(this.chosen?.kind === "range" ? this.shareOf((this.chosen.from + this.chosen.to) / 2) + step : 0.5));
    });
  }

  around(share) { return this.between(share - WINDOW / 2, share + WINDOW / 2); }

  between(a, b) {
    const { from, to } = this.range, value = (share) => Math.round(from + Math.max(0, Math.min(1, share)) * (to - from));
    return { kind: "range", from: value(Math.min(a, b)), to: value(Math.max(a, b)) };
  }

  shareOf(value) { return (value - this.range.from) / (this.range.to - this.range.from); }

  drawWindow() {
    const { window: mark, chosen, rampBox } = this, isRange = chosen?.kind === "range";
    if (!mark) return;
    mark.hidden = !isRange;
    rampBox.setAttribute("aria-valuetext", isRange ? `${chosen.from} to ${chosen.to} ${this.fill.unit}` : "none");
    if (!isRange) return;
    rampBox.setAttribute("aria-valuenow", chosen.from);
    mark.style.left = `${this.shareOf(chosen.from) * 100}%`;
    mark.style.width = `${(this.shareOf(chosen.to) - this.shareOf(chosen.from)) * 100}%`;
  }

  /** All counts, as text by KIND_AT. */
  count(counts) {
    for (const kind of this.counters.keys()) this.write(kind, counts[kind] ?? NIL);
  }

  /** Those that changed, as News tells them. */
  follow(news) {
    for (let i = 0; i < news.length; i += 2) this.write(news[i], news[i + 1]);
  }

  write(kind, text) {
    const counter = this.counters.get(kind);
    if (counter === undefined) return;
    counter.node.data = text;
    if ((text === NIL) !== counter.isNil) counter.button.classList.toggle("nil", counter.isNil = !counter.isNil);
  }
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const rampColour = (fill, theme, t) => `rgb(${rampAt(fill.ramp ?? "danger", theme, t).join(" ")})`;
const group = (word, ...parts) => el("span", { class: "grp" }, el("b", {}, word), ...parts);

function swatch(look, ground, k) {
  const side = 14, canvas = el("canvas", { width: side * 2, height: side * 2, class: "swatch", "aria-hidden": "true" }), c = canvas.getContext("2d");
  c.scale(2, 2);
  drawCell(c, 0, 0, side, side, look, ground, k);
  return canvas;
}

function notch(k) {
  const canvas = el("canvas", { width: 28, height: 28, class: "swatch", "aria-hidden": "true" }), c = canvas.getContext("2d");
  c.scale(2, 2);
  c.fillStyle = k.line;
  c.fillRect(0, 0, 14, 14);
  c.fillStyle = k.ink;
  c.fill(new Path2D("M14 7V14H7z"));
  return canvas;
}
