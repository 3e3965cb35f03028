// The Map page: the controls, the address that holds the view, and the three pictures of it: map, legend, table.
import { brushOf, brushText } from "./heatmap/brush.js";
import { Card } from "./heatmap/card.js";
import { FILLS } from "./heatmap/colour.js";
import { Heat } from "./heatmap/draw.js";
import { NodeNames, find, group } from "./heatmap/layout.js";
import { Legend } from "./heatmap/legend.js";
import { Pointing } from "./heatmap/pointing.js";
import { Table } from "./heatmap/table.js";
import { GPU_LOOKS } from "./glyphs.js";
import { isCommand } from "./keys.js";
import { follow, read, store, watch } from "./socket.js";
import { FLAGS, LOOK, STATE } from "./wire.js";

const REGROUP_MS = 5_000, SETTLED_MS = 250;
const LEGIBLE_PX = 5; // a fleet whose cells would be smaller is first shown by its nodes
const CLOSE_PX = 30; // cells after a step from a node to its GPUs
const SMALL_FLEET = 2_000; // GPUs: all are watched wherever one looks
const BY_NODES = ["pool", "rack"]; // groups that keep nodes whole
const STATES = [LOOK, STATE, FLAGS]; // columns that a state is told by

/** Starts on the page's <div data-module="map">. */
export async function mount(page) {
  await document.fonts.load('600 12px "Inter Variable"');
  new MapPage(page).start();
}

class MapPage {
  constructor(page) {
    const find = (name) => page.querySelector(`[data-part="${name}"]`);
    Object.assign(this, { page, find, form: find("controls"), canvas: find("map"), total: find("total"), empty: find("empty"), zoomWord: find("zoom"), zooms: [...page.querySelectorAll("[data-zoom]")] });
    const phone = innerWidth <= 760, shape = phone ? { columns: 1, pad: 12 } : { columns: 4, pad: 16 };
    const height = () => Math.max(phone ? 420 : 560, innerHeight - this.canvas.getBoundingClientRect().top - scrollY - 50);
    this.heat = new Heat(this.canvas, { hug: true, ...shape, least: 3, height, onCounts: (news) => this.legend.follow(news) });
    this.card = new Card(find("tip"), this.heat, store);
    this.table = new Table(find("table"), store, read, () => { this.watch(); this.follow(); });
    this.legend = new Legend(find("legend"), (brush, chosen) => this.brush(brush, chosen));
    this.level = null; // "nodes" or "gpus", until the first fleet is known neither
    this.rows = [];
    this.regroupedAt = this.regrouping = 0;
  }

  start() {
    this.readAddress();
    document.addEventListener("mf:cells", ({ detail }) => this.onCells(detail));
    document.addEventListener("mf:theme", () => this.seen && this.drawLegend());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("input", () => { this.readControls(); this.writeAddress(); this.rebuild(); });
    this.page.querySelectorAll("[data-view]").forEach((button) => button.addEventListener("click", (event) => { event.preventDefault(); this.setView(button.dataset.view); }));
    this.zooms.forEach((button) => button.addEventListener("click", () => this.step(Number(button.dataset.zoom))));
    new Pointing(this.canvas, this);
    document.addEventListener("keydown", (event) => { if (event.key === "t" && isCommand(event) && !document.querySelector("dialog[open]")) this.setView(this.view === "table" ? "map" : "table"); });
    addEventListener("resize", () => this.view === "map" && this.seen && this.rebuild());
    this.rebuild();
  }

  onCells({ layout, detail }) {
    if (layout || !this.seen) return this.rebuild();
    if (detail !== this.detail) return;
    const { watch: seen } = store[detail];
    if (seen !== this.watched) { this.watched = seen; this.onWatched(); }
    this.refresh();
  }

  /** What was asked for has come: orders that follow it can be made. */
  onWatched() {
    if (this.view === "table" && this.table.field !== undefined) this.table.show(this.rows);
  }

  // ---- the view: controls and address ----

  readAddress() {
    const asked = new URLSearchParams(location.search), zoom = asked.get("zoom");
    for (const name of ["group", "fill", "q"]) if (asked.has(name)) choose(this.form.elements[name], asked.get(name));
    this.asked = { gpu: Number(asked.get("gpu")) || null, node: asked.get("node"), from: asked.get("from"), to: asked.get("to"), zoom: Number(zoom) || 1, at: placeOf(asked.get("at")) };
    this.level = zoom === "nodes" ? "nodes" : zoom ? "gpus" : null;
    this.chosen = brushOf(asked.get("mark"));
    this.view = asked.get("view") === "table" ? "table" : "map";
    this.readControls();
    this.setRange(this.asked);
    this.setView(this.view);
  }

  readControls() {
    const { group: by, fill, q, from, to } = this.form.elements, before = this.fillName;
    Object.assign(this, { by: by.value, fillName: fill.value, fill: FILLS[fill.value], query: q.value.trim() });
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
    if (this.chosen?.kind === "range" && !this.asked) this.chosen = null;
  }

  writeAddress() {
    const address = new URL(location.href), { fill, range, heat } = this, { camera } = heat;
    const put = (name, value, usual) => (value === usual || value == null || value === "" ? address.searchParams.delete(name) : address.searchParams.set(name, value));
    put("group", this.by, "pool");
    put("fill", this.fillName, "headroom");
    put("q", this.query, "");
    put("view", this.view, "map");
    put("from", range?.from, fill.from);
    put("to", range?.to, fill.to);
    put("mark", brushText(this.chosen), null);
    if (!this.seen) return history.replaceState(history.state, "", address);
    put("gpu", this.pinned == null || this.detail !== "gpus" ? null : store.layout.id(this.pinned), null);
    put("node", this.pinned == null || this.detail !== "nodes" ? null : this.nodes.node(this.pinned), null);
    const zoom = this.level === "nodes" ? "nodes" : camera.zoom > 1 ? camera.zoom.toFixed(2) : "1";
    put("zoom", zoom, this.usualLevel() === "nodes" ? "nodes" : "1");
    put("at", camera.isWhole ? null : camera.centre.map((share) => share.toFixed(3)).join(","), null);
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

  // ---- what is watched, and how near ----

  get detail() { return this.view === "map" && this.level === "nodes" && this.canShowNodes ? "nodes" : "gpus"; }
  get hangsOnStates() { return this.query !== "" || (this.by === "state" && this.view === "map"); } // which rows are shown, and where
  get canShowNodes() { return BY_NODES.includes(this.by) && !this.query; }

  /** A fleet whose GPUs would be specks is shown by its nodes first. */
  usualLevel() {
    if (!this.canShowNodes || !this.canvas.clientWidth) return "gpus";
    const room = this.canvas.clientWidth * this.heat.options.height();
    return Math.sqrt((room * 0.75) / Math.max(1, store.layout.count)) < LEGIBLE_PX ? "nodes" : "gpus";
  }

  /** Tells the feed what is drawn: of a large fleet the part that is seen. */
  watch() {
    clearTimeout(this.watchTimer);
    if (!this.seen) return;
    const fields = this.fill.field === undefined ? [] : [this.fill.field];
    if (this.view === "table") return watch({ detail: "gpus", fields: this.table.field === undefined ? [] : [this.table.field], rows: this.query ? this.rows : null, closer: this.table.visible });
    if (this.detail === "nodes") return watch({ detail: "nodes", fields });
    const all = !this.query && (this.heat.camera.isWhole || store.layout.count <= SMALL_FLEET);
    watch({ detail: "gpus", fields, rows: all ? null : this.heat.camera.isWhole ? this.rows : this.heat.rowsNear() });
  }

  /** Moved or zoomed: the address and the feed follow once it is quiet. */
  moved() {
    clearTimeout(this.watchTimer);
    this.watchTimer = setTimeout(() => { this.watch(); this.writeAddress(); }, SETTLED_MS);
    this.canvas.style.touchAction = this.heat.camera.isWhole ? "pan-y" : "none";
    if (this.card.row !== null) this.focus(this.heat.focus);
    this.tellZoom();
  }

  tellZoom() {
    const { camera } = this.heat, [out, into] = this.zooms;
    const word = this.level === "nodes" && this.canShowNodes ? "Nodes" : camera.zoom > 1.005 ? `${camera.zoom.toFixed(1)}×` : "GPUs";
    if (this.zoomWord.textContent !== word) this.zoomWord.textContent = word; // a drag asks in every frame
    out.disabled = this.detail === "nodes" || (camera.zoom <= 1 && !this.canShowNodes);
    into.disabled = this.detail === "gpus" && camera.zoom >= camera.world.closest - 0.01;
  }

  /** One step nearer (1) or farther (-1): pool and node, GPUs, then larger ones. */
  step(direction, px, py) {
    const { camera } = this.heat;
    if (this.detail === "nodes") return direction > 0 && this.setLevel("gpus");
    if (direction < 0 && camera.zoom <= 1.005) return this.canShowNodes && this.setLevel("nodes");
    camera.step(direction, px, py);
    this.heat.zoomTo(camera.zoom, px, py);
    this.moved();
  }

  /** By a factor around a point; out of the whole map to its nodes. Answers whether anything changed. */
  zoomBy(factor, px, py) {
    const { camera } = this.heat, before = camera.zoom;
    if (this.detail === "nodes" || (factor < 1 && before <= 1.005)) {
      if (this.detail === "nodes" ? factor <= 1 : !this.canShowNodes) return false;
      this.setLevel(this.detail === "nodes" ? "gpus" : "nodes");
      return true;
    }
    this.heat.zoomTo(before * factor, px, py);
    this.moved();
    return camera.zoom !== before;
  }

  pan(dx, dy) {
    this.heat.pan(dx, dy);
    this.moved();
  }

  setLevel(level) {
    this.level = level;
    this.heat.camera.zoom = 1;
    this.pin(null);
    this.rebuild();
    this.writeAddress();
  }

  // ---- drawing ----

  /** Which rows are read: that of the card, or those of the table. */
  follow() { follow(this.detail, this.view === "table" ? this.table.visible : this.card.row === null ? [] : [this.card.row]); }

  /** Which rows are shown may have changed: lay out, draw, count again. At once, where that hangs on no states. */
  async rebuild() {
    const { layout } = store;
    if (!layout.epoch) return watch({ detail: "gpus", fields: this.fill.field === undefined ? [] : [this.fill.field] }); // which also tells of the fleet
    this.seen = true;
    const at = this.regroupedAt = performance.now();
    this.level ??= this.usualLevel();
    if (this.hangsOnStates) await read(STATES);
    if (this.regroupedAt !== at) return; // anew meanwhile
    this.rows = this.found();
    if (this.view === "map") { this.showMap(); this.watch(); this.follow(); }
    else { this.heat.rest(); this.table.show(this.rows, this.fillName); }
    this.drawLegend();
    this.count();
    this.recall();
    this.regroupLater();
  }

  /** Groups by state and filters by state follow every few seconds: cells must not jump while one looks. */
  regroupLater() {
    clearTimeout(this.regrouping);
    if (this.hangsOnStates) this.regrouping = setTimeout(() => this.regroup(), REGROUP_MS);
  }

  /** States have changed: other rows may pass the filter, or belong to other groups. In steps, so that nobody waits for all of it. */
  async regroup() {
    this.regroupLater();
    if (this.card.row !== null) return;
    const at = this.regroupedAt = performance.now();
    await read(STATES);
    const before = this.rows, rows = this.found();
    const isSame = rows.length === before.length && rows.every((row, i) => row === before[i]);
    await rest();
    const groups = this.view === "map" ? this.groups(rows) : [];
    await rest();
    if (this.regroupedAt !== at || this.card.row !== null) return; // all was built anew meanwhile, or somebody looks
    this.rows = rows;
    if (this.view === "map") this.showMap(groups);
    else if (!isSame) this.table.show(rows);
    if (isSame) return;
    if (this.view === "map") this.watch();
    this.count();
  }

  found() { return find(store.layout, this.query, (row) => GPU_LOOKS[store.state(row)].word); }

  /** The tiles of these GPUs, or of all nodes. */
  groups(rows) {
    const { layout } = store;
    if (this.nodes?.layout !== layout) this.nodes = new NodeNames(layout);
    if (this.detail === "nodes") return group(this.nodes, [...Array(layout.nodeCount).keys()], this.by);
    return group(layout, rows, this.by, (row) => GPU_LOOKS[store.state(row)].word);
  }

  showMap(groups = this.groups(this.rows)) {
    const { fill, range } = this, isNodes = this.detail === "nodes";
    this.heat.options.tileNames = !isNodes;
    this.heat.show({ rows: store[this.detail], groups, fill, range, imported: isNodes ? null : store.layout.imported });
    this.canvas.style.touchAction = this.heat.camera.isWhole ? "pan-y" : "none";
    this.tellZoom();
  }

  /** The focus and the place that the address asked for, once there is a fleet. */
  recall() {
    const { asked } = this, { layout } = store;
    if (!asked || this.view !== "map" || !layout.count) return;
    this.asked = null;
    if (this.chosen) this.brush(this.chosen, true);
    if (asked.zoom > 1) { this.heat.camera.lookAt(asked.zoom, asked.at); this.heat.zoomTo(this.heat.camera.zoom); }
    const row = this.detail === "nodes" ? layout.document.nodes.name.indexOf(asked.node) : layout.rowOf.get(asked.gpu) ?? -1;
    if (row >= 0) this.pin(row);
    this.moved();
  }

  /** Values changed of rows that are followed. */
  refresh() {
    if (this.view === "table") this.table.update();
    this.card.refresh();
  }

  drawLegend() {
    if (this.view !== "map") return;
    this.legend.show(this.fill, this.range, this.chosen);
    this.legend.count(this.heat.counts);
  }

  count() {
    this.empty.hidden = this.rows.length > 0;
    this.empty.querySelector("[data-part=why]").textContent = store.layout.count ? `No GPU matches “${this.query}”.` : "No node has joined yet.";
    const nodes = new Set(this.rows.map((row) => store.layout.nodeOf[row])), pools = new Set([...nodes].map((node) => store.layout.document.nodes.pool[node]));
    const many = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`, lead = document.createElement("b");
    lead.textContent = this.rows.length.toLocaleString("en");
    this.total.replaceChildren(lead, ` GPU${this.rows.length === 1 ? "" : "s"}, ${many(nodes.size, "node")}, ${many(pools.size, "pool")}`);
  }

  /** Cells outside of a part of the legend fade; `chosen` says that the choice stays. */
  brush(brush, chosen) {
    if (chosen && brush !== this.chosen) { this.chosen = brush; this.writeAddress(); }
    this.heat.brushBy(brush);
  }

  // ---- pointing ----

  hover(px, py) {
    const row = this.heat.at(px, py);
    this.canvas.classList.toggle("over", row !== null);
    if (row !== null && row !== this.heat.focus) this.focus(row);
  }

  unhover() { this.focus(this.pinned ?? null); }

  press(px, py) {
    const row = this.heat.at(px, py);
    if (row !== null) this.open(row);
  }

  /** A key that the map knows; answers whether it did. */
  key(name, shift) {
    const arrow = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[name], { picker, focus } = this.heat;
    if (arrow && shift) this.pan(arrow[0] * this.heat.width * 0.2, arrow[1] * this.heat.height * 0.2);
    else if (arrow) this.pin(picker.step(focus, ...arrow));
    else if (name === "Home") this.pin(picker.first());
    else if (name === "End") this.pin(picker.last());
    else if (name === "Enter" && focus !== null) this.open(focus);
    else if (name === "Escape") this.pin(null);
    else if (name === "+" || name === "=") this.step(1, ...this.middle());
    else if (name === "-") this.step(-1, ...this.middle());
    else if (name === "0") { this.heat.zoomTo(1); this.moved(); }
    else return false;
    return true;
  }

  /** Where keys zoom to: the focus, else the middle of the window. */
  middle() {
    const { focus, placed } = this.heat;
    if (focus === null || Number.isNaN(placed.x[focus] ?? NaN)) return [this.heat.width / 2, this.heat.height / 2];
    const { x, y } = this.heat.box(focus);
    return [x, y];
  }

  /** Focus that stays and stands in the address. */
  pin(row) {
    this.pinned = row;
    this.heat.reveal(row);
    this.focus(row);
    this.moved();
  }

  focus(row) {
    this.heat.focusOn(row);
    if (row === null || this.view !== "map" || Number.isNaN(this.heat.placed.x[row] ?? NaN)) this.card.hide();
    else this.card.show(row, this.detail === "nodes" ? { name: this.nodes.node(row), pool: this.nodes.pool(row), gpus: this.nodes.size(row) } : null);
    this.follow();
  }

  open(row) {
    if (this.detail === "nodes") return this.openNode(row);
    this.pin(row);
    this.writeAddress();
    location.href = `/gpus/${store.layout.id(row)}/`;
  }

  /** From a node's tile to its GPUs. */
  openNode(node) {
    const first = this.nodes.first[node];
    this.setLevel("gpus");
    const { camera, placed } = this.heat;
    camera.zoomTo(CLOSE_PX / placed.pitch);
    this.heat.zoomTo(camera.zoom);
    camera.lookAt(camera.zoom, [placed.x[first] / this.heat.width, placed.y[first] / placed.height]);
    this.heat.look();
    this.pin(first);
  }
}

/** Until the browser has done what waits. */
const rest = () => new Promise((go) => setTimeout(go));

const number = (text, usual) => (text.trim() === "" || Number.isNaN(Number(text)) ? usual : Number(text));

/** An address may be old, or made up: a list keeps what it has where it offers no such thing. */
function choose(control, value) {
  const usual = control.value;
  control.value = value;
  if (control.selectedIndex === -1) control.value = usual;
}

/** The middle of the window as shares of the map, of "0.5,0.5". */
function placeOf(text) {
  const at = (text ?? "").split(",").map(Number);
  return at.length === 2 && at.every(Number.isFinite) ? at : [0.5, 0.5];
}
