// The Map page: the controls, the address that holds the view, and the three pictures of it: map, legend, table.
import { el, state as stateWord } from "./kit.js";
import { FILLS, looksOf, rampAt } from "./heatmap/colour.js";
import { Card } from "./heatmap/card.js";
import { Heat, drawCell, inks } from "./heatmap/draw.js";
import { haystack, matches } from "./heatmap/layout.js";
import { Table } from "./heatmap/table.js";
import { GPU_LOOKS } from "./glyphs.js";
import { isCommand } from "./keys.js";
import { store } from "./socket.js";
import { FLAG, IDLE, LOOK, STALE, UNREACHABLE, UNSUPPORTED, ZERO } from "./wire.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const MARKED = ["UNHEALTHY", "GUARDED", "OVERLIMIT", "COOLDOWN", "DISABLED", "QUARANTINED"];
const OFF_SCALE = [[IDLE, "Idle, no process"], [STALE, "Stale > 5 s"], [UNREACHABLE, "Unreachable"], [UNSUPPORTED, "Unsupported"]];
const REGROUP_MS = 5_000;

/** Starts on the page's <div data-module="map">. */
export async function mount(page) {
  await document.fonts.load('600 12px "Inter Variable"');
  new MapPage(page).start();
}

class MapPage {
  constructor(page) {
    const find = (name) => page.querySelector(`[data-part="${name}"]`);
    Object.assign(this, { page, form: find("controls"), canvas: find("map"), box: find("box"), legend: find("legend"), total: find("total"), empty: find("empty") });
    const phone = innerWidth <= 760;
    this.heat = new Heat(this.canvas, store, { hug: true, columns: phone ? 1 : 4, pad: phone ? 12 : 16, least: phone ? 13 : 5, height: () => Math.max(phone ? 420 : 560, innerHeight - this.canvas.getBoundingClientRect().top - scrollY - 18) });
    this.card = new Card(find("tip"), this.heat, store);
    this.table = new Table(find("table"), store);
    this.regroupedAt = 0;
  }

  start() {
    this.readAddress();
    document.addEventListener("mf:cells", ({ detail }) => (detail.layout || !this.seen ? this.rebuild() : this.refresh(detail.changed)));
    document.addEventListener("mf:theme", () => this.seen && this.drawLegend());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("input", () => { this.readControls(); this.writeAddress(); this.rebuild(); });
    this.page.querySelectorAll("[data-view]").forEach((button) => button.addEventListener("click", (event) => { event.preventDefault(); this.setView(button.dataset.view); }));
    this.canvas.addEventListener("pointermove", (event) => this.onPointer(event));
    this.canvas.addEventListener("pointerleave", () => this.focus(this.pinned ?? null));
    this.canvas.addEventListener("click", (event) => this.onClick(event));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("blur", () => this.focus(null));
    document.addEventListener("keydown", (event) => { if (event.key === "t" && isCommand(event) && !document.querySelector("dialog[open]")) this.setView(this.view === "table" ? "map" : "table"); });
    addEventListener("resize", () => this.view === "map" && this.heat.show({}));
    if (store.layout.count) this.rebuild();
  }

  // ---- the view: controls and address ----

  readAddress() {
    const asked = new URLSearchParams(location.search);
    for (const name of ["group", "fill", "q"]) if (asked.has(name)) this.form.elements[name].value = asked.get(name);
    this.asked = { gpu: Number(asked.get("gpu")) || null, from: asked.get("from"), to: asked.get("to") };
    this.view = asked.get("view") === "table" ? "table" : "map";
    this.readControls();
    this.setRange(this.asked);
    this.setView(this.view);
  }

  readControls() {
    const { group, fill, q, from, to } = this.form.elements, before = this.fillName;
    Object.assign(this, { by: group.value, fillName: fill.value, fill: FILLS[fill.value], query: q.value.trim() });
    if (before && before !== this.fillName) this.setRange({});
    this.range = this.fill.ramp ? { from: number(from.value, this.fill.from), to: number(to.value, this.fill.to) } : undefined;
  }

  /** The ends of the ramp as asked for, else the fill's own. */
  setRange({ from, to }) {
    const { from: low, to: high } = this.form.elements, { fill } = this;
    low.value = from ?? fill.from ?? "";
    high.value = to ?? fill.to ?? "";
    low.closest(".field").hidden = !fill.ramp || this.view === "table";
    this.form.querySelector("[data-part=unit]").textContent = fill.unit ?? "";
    this.range = fill.ramp ? { from: number(low.value, fill.from), to: number(high.value, fill.to) } : undefined;
  }

  writeAddress() {
    const address = new URL(location.href), { fill, range } = this;
    const put = (name, value, usual) => (value === usual || value == null || value === "" ? address.searchParams.delete(name) : address.searchParams.set(name, value));
    put("group", this.by, "pool");
    put("fill", this.fillName, "headroom");
    put("q", this.query, "");
    put("view", this.view, "map");
    put("from", range?.from, fill.from);
    put("to", range?.to, fill.to);
    put("gpu", this.pinned == null ? null : store.layout.id(this.pinned), null);
    history.replaceState(history.state, "", address);
  }

  setView(view) {
    this.view = view;
    this.page.querySelectorAll("[data-view]").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.view === view)));
    for (const part of this.page.querySelectorAll("[data-in]")) part.hidden = part.dataset.in !== view;
    if (!this.fill.ramp) this.form.elements.from.closest(".field").hidden = true;
    this.card.hide();
    this.writeAddress();
    if (this.seen) this.rebuild();
  }

  // ---- drawing ----

  /** Which rows are shown may have changed: lay out, draw, count again. */
  rebuild() {
    const { layout } = store;
    this.seen = true;
    this.regroupedAt = performance.now();
    const all = [...Array(layout.count).keys()];
    this.rows = this.query ? all.filter((row) => matches(haystack(layout, row, GPU_LOOKS[store.state(row)].word), this.query)) : all;
    this.empty.hidden = this.rows.length > 0;
    this.empty.querySelector("[data-part=why]").textContent = layout.count ? `No GPU matches “${this.query}”.` : "No node has joined yet.";
    if (this.view === "map") this.heat.show({ rows: this.rows, by: this.by, fill: this.fill, range: this.range });
    else this.table.show(this.rows, this.fillName);
    if (this.asked.gpu && layout.rowOf.has(this.asked.gpu)) { this.pin(layout.rowOf.get(this.asked.gpu)); this.asked.gpu = null; }
    this.drawLegend();
  }

  /** Values changed. Groups by state and filters by state follow every few seconds: cells must not jump while one looks. */
  refresh(changed) {
    const follows = this.by === "state" || this.query;
    if (follows && performance.now() - this.regroupedAt > REGROUP_MS && !this.card.row) return this.rebuild();
    if (this.view === "map") this.heat.update(changed);
    else this.table.update(changed);
    this.card.refresh();
    this.count();
  }

  drawLegend() {
    const k = inks(), { fill } = this, unit = fill.unit ?? "";
    this.counters = [];
    const counted = (node, holds) => { const count = el("span", { class: "qq tn" }); this.counters.push([count, holds]); node.append(" ", count); return node; };
    const live = (row) => ![STALE, UNREACHABLE, UNSUPPORTED].includes(store.byte(row, LOOK));
    const scale = el("span", { class: "grp" }, el("b", {}, fill.short ?? fill.word));
    if (fill.ramp) {
      const ground = palette0(fill, k.theme);
      scale.append(counted(item(swatch(ZERO, ground, k), "Zero, measured"), (row) => looksOf(store.cells, row, fill).look === ZERO));
      scale.append(el("span", { class: "it tn" }, `${this.range.from} ${unit}`, ramp(fill, k.theme), `${this.range.to} ${unit}`));
    } else scale.append(...Object.keys(GPU_LOOKS).filter((name) => name !== "NO_DATA").map((name) => counted(item(null, stateWord(name)), (row) => store.state(row) === name)));
    const off = el("span", { class: "grp" }, el("b", {}, "Off the scale"), ...OFF_SCALE.filter(([look]) => fill.ramp || look !== IDLE).map(([look, word]) => counted(item(swatch(look, rampColour(fill, k.theme, 0.6), k), word), (row) => store.byte(row, LOOK) === look)));
    const marks = el("span", { class: "grp" }, el("b", {}, "State marks"), ...MARKED.map((name) => counted(item(null, stateWord(name)), (row) => live(row) && store.state(row) === name)),
      counted(item(notch(k), "Offline guest"), (row) => live(row) && store.has(row, FLAG.OFFLINE)));
    this.legend.replaceChildren(scale, off, el("span", { class: "cut" }), ...(fill.ramp ? [marks] : []), el("span", { class: "grow" }), el("span", { class: "qq xs hide-p" }, "A header counts busy, overloaded and silent GPUs"));
    this.count();
  }

  count() {
    for (const [node, holds] of this.counters ?? []) {
      let count = 0;
      for (const row of this.rows) if (holds(row)) count += 1;
      node.textContent = count.toLocaleString("en");
      node.parentElement.classList.toggle("nil", !count);
    }
    const nodes = new Set(this.rows.map((row) => store.layout.node(row))).size, pools = new Set(this.rows.map((row) => store.layout.pool(row))).size;
    const many = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
    this.total.replaceChildren(el("b", {}, this.rows.length.toLocaleString("en")), ` GPU${this.rows.length === 1 ? "" : "s"}, ${many(nodes, "node")}, ${many(pools, "pool")}`);
  }

  // ---- pointing ----

  onPointer({ clientX, clientY }) {
    const box = this.canvas.getBoundingClientRect(), row = this.heat.picker.at(clientX - box.left, clientY - box.top);
    this.canvas.classList.toggle("over", row !== null);
    if (row !== null && row !== this.heat.focus) this.focus(row);
  }

  onClick({ clientX, clientY }) {
    const box = this.canvas.getBoundingClientRect(), row = this.heat.picker.at(clientX - box.left, clientY - box.top);
    if (row !== null) this.open(row);
  }

  onKey(event) {
    const step = ARROWS[event.key], { picker, focus } = this.heat;
    if (step) this.pin(picker.step(focus, ...step));
    else if (event.key === "Home") this.pin(picker.first());
    else if (event.key === "End") this.pin(picker.last());
    else if (event.key === "Enter" && focus !== null) this.open(focus);
    else if (event.key === "Escape") this.pin(null);
    else return;
    event.preventDefault();
  }

  /** Focus that stays and stands in the address. */
  pin(row) {
    this.pinned = row;
    this.focus(row);
    this.writeAddress();
  }

  focus(row) {
    this.heat.focusOn(row);
    if (row === null || this.view !== "map" || Number.isNaN(this.heat.placed.x[row])) this.card.hide();
    else this.card.show(row);
  }

  open(row) {
    this.pin(row);
    location.href = `/gpus/${store.layout.id(row)}/`;
  }
}

const number = (text, usual) => (text.trim() === "" || Number.isNaN(Number(text)) ? usual : Number(text));
const rampColour = (fill, theme, t) => `rgb(${rampAt(fill.ramp ?? "danger", theme, t).join(" ")})`;
const palette0 = (fill, theme) => rampColour(fill, theme, fill.loud === "low" ? 0 : 1);

function item(picture, word) {
  return el("span", { class: "it" }, picture, word);
}

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

/** The ramp from its low to its high values, drawn with the map's own colours. */
function ramp(fill, theme) {
  const canvas = el("canvas", { width: 150, height: 10, class: "ramp", "aria-hidden": "true" }), c = canvas.getContext("2d");
  for (let x = 0; x < 150; x += 1) {
    c.fillStyle = rampColour(fill, theme, fill.loud === "low" ? x / 149 : 1 - x / 149);
    c.fillRect(x, 0, 1, 10);
  }
  return canvas;
}
