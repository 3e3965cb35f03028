// The live map on a page: where cells are, what is looked at, which one is in focus. What it looks like is the painter's.
import { onTheme } from "../kit.js";
import { Camera, cellSize, closest } from "./camera.js";
import { inks } from "./inks.js";
import { arrange } from "./layout.js";
import { Picker } from "./pick.js";
import { painterOf } from "./thread.js";

const FOCUS_PX = 3;

export class Heat {
  /** options as `arrange` takes them, and: height() px there is, hug (the canvas takes the height it needs), compact (names only), onCounts(News: those that changed). `counts`: how many rows are how, as text by KIND_AT. */
  constructor(canvas, options = {}) {
    Object.assign(this, { canvas, options, focus: null, counts: [], camera: new Camera(), groups: [], shown: new Int32Array(0) });
    this.ring = document.createElement("div");
    this.ring.className = "ring";
    this.ring.setAttribute("aria-hidden", "true");
    canvas.after(this.ring);
    this.placed = arrange([], 0, 1, 1);
    this.picker = new Picker(this.placed);
    this.stopTheme = onTheme(() => this.rows && this.show({}));
    this.resized = new ResizeObserver(() => this.rows && this.isResized && this.show({}));
    this.resized.observe(canvas);
    this.painting = painterOf(canvas, options.onCounts && ((news) => this.count(news)));
  }

  count(news) {
    for (let i = 0; i < news.length; i += 2) this.counts[news[i]] = news[i + 1];
    this.options.onCounts(news);
  }

  /** Has the painter do something, as soon as there is one. */
  have(name, ...given) { this.painting.then((painter) => painter[name](...given)); }

  /**
   * Shows other rows, groups or colours: { rows (of the store), groups (as `group` answers them), fill, range, imported (by row, 1 without an agent) }.
   * What is not named stays. Lays out and draws everything; new values of the rows are drawn as they come.
   */
  show(view) {
    Object.assign(this, view);
    this.width = this.canvas.clientWidth;
    if (!this.width) return;
    const { rows, groups } = this, room = this.options.height?.() ?? this.canvas.clientHeight;
    this.placed = arrange(groups, rows.count, this.width, room, this.options);
    this.picker = new Picker(this.placed);
    this.shown = this.picker.rows;
    this.resize(Math.min(room, Math.max(this.placed.height, this.options.hug ? 0 : room)));
    this.camera.frame(this.width, this.height, { width: this.width, height: this.placed.height, closest: closest(this.placed) });
    this.have("show", this.picture(), this.camera.at, rows);
    this.placeRing();
  }

  /** What a painter is told of the map. */
  picture() {
    const { placed, groups, rows, fill, range, imported = null, width, height, options: { labels = 22, font = 12, compact = false } } = this;
    const groupOf = new Int32Array(rows.count).fill(-1);
    groups.forEach((one, g) => { for (const row of one.rows) groupOf[row] = g; });
    return { placed, groupOf, imported, fill, range, k: inks(), width, height, ratio: devicePixelRatio || 1, labels, font, compact };
  }

  get isResized() {
    const { canvas, width, height, options } = this;
    return canvas.clientWidth !== width || (!options.hug && canvas.clientHeight !== height);
  }

  resize(height) {
    if (this.options.hug) this.canvas.style.height = `${height}px`;
    this.height = this.canvas.clientHeight;
  }

  /** Nobody sees it until it is shown again. */
  rest() { this.have("rest"); }

  /** Only what a brush holds keeps its colours; null: all does. */
  brushBy(brush) { this.have("keep", brush); }

  focusOn(row) {
    this.focus = row;
    this.placeRing();
  }

  zoomTo(zoom, px, py) { this.camera.zoomTo(zoom, px, py); this.look(); }
  pan(dx, dy) { this.camera.pan(dx, dy); this.look(); }

  /** The camera was moved. */
  look() {
    this.have("look", this.camera.at);
    this.placeRing();
  }

  reveal(row) {
    const { x, y, size, sizeY } = this.placed, { x: left, y: top } = this.camera;
    if (row === null || Number.isNaN(x[row] ?? NaN)) return;
    this.camera.reveal(x[row], y[row], size, sizeY);
    if (this.camera.x !== left || this.camera.y !== top) this.look();
  }

  /** The row at a point of the canvas in CSS px; null where there is none. */
  at(px, py) {
    const { zoom, x, y } = this.camera;
    return this.picker.at((px + x) / zoom, (py + y) / zoom);
  }

  /** Where a row is drawn, in CSS px of the canvas. */
  box(row) {
    const { placed } = this, { zoom, x, y } = this.camera, [width, height] = cellSize(placed, zoom);
    return { x: placed.x[row] * zoom - x, y: placed.y[row] * zoom - y, width, height, pitch: placed.pitch * zoom };
  }

  /** Rows in the window and as far around it as a half of it. */
  rowsNear() {
    const { placed, camera } = this, { zoom } = camera, left = (camera.x - this.width / 2) / zoom, top = (camera.y - this.height / 2) / zoom;
    const right = left + (this.width * 2) / zoom, bottom = top + (this.height * 2) / zoom;
    return this.shown.filter((row) => placed.x[row] > left && placed.x[row] < right && placed.y[row] > top && placed.y[row] < bottom);
  }

  destroy() {
    this.resized.disconnect();
    this.stopTheme();
    this.have("end");
    this.ring.remove();
  }

  // ---- the focus ----

  placeRing() {
    const { ring, focus } = this, hidden = focus === null || Number.isNaN(this.placed.x[focus] ?? NaN);
    ring.hidden = hidden;
    if (hidden) return;
    const { x, y, width, height } = this.box(focus), pad = FOCUS_PX + 1;
    const outside = x + width < 0 || y + height < 0 || x > this.width || y > this.height;
    ring.hidden = outside;
    Object.assign(ring.style, { left: `${this.canvas.offsetLeft + x - pad}px`, top: `${this.canvas.offsetTop + y - pad}px`, width: `${width + 2 * pad}px`, height: `${height + 2 * pad}px` });
  }
}
