// The live map in a canvas: cells as pixels in a buffer of their own, names and counts on a second canvas, the focus in a box above.
import { onTheme } from "../kit.js";
import { FLAG, FLAGS, LOOK, OK, STALE, UNREACHABLE, UNSUPPORTED, ZERO } from "../wire.js";
import { silentOf } from "../store.js";
import { Camera, closest } from "./camera.js";
import { byteOf, lookOf, palette, stateIndex } from "./colour.js";
import { Headers } from "./headers.js";
import { arrange } from "./layout.js";
import { Picker } from "./pick.js";
import { ROOMY, STATE_NAMES, Sprites, inks, isMarked, keyOf } from "./sprites.js";
import { NodeTally, Tally } from "./tally.js";

const FOCUS_PX = 3, OUTSIDE = -1e6;

export class Heat {
  /** options as `arrange` takes them, and: height() px there is, hug (the canvas takes the height it needs), compact (names only). */
  constructor(canvas, options = {}) {
    Object.assign(this, { canvas, options, focus: null, brush: null, camera: new Camera(), groups: [], shown: new Int32Array(0) });
    this.context = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
    this.names = layer(canvas, "canvas");
    this.ring = layer(canvas, "div");
    this.ring.classList.add("ring");
    this.k = inks();
    this.placed = arrange([], 0, 1, 1);
    this.picker = new Picker(this.placed);
    this.stopTheme = onTheme(() => { this.k = inks(); this.rows && this.show({}); });
    this.resized = new ResizeObserver(() => this.rows && this.canvas.clientWidth !== this.width && this.show({}));
    this.resized.observe(canvas);
    this.paint = () => this.drawNow();
  }

  /**
   * Shows other rows, groups or colours: { rows (of the store), groups (as `group` answers them), fill, range, stateOfImport }.
   * What is not named stays. Lays out and draws everything.
   */
  show(view) {
    Object.assign(this, view);
    this.width = this.canvas.clientWidth;
    if (!this.width) return;
    const { rows, groups, fill } = this, room = this.options.height?.() ?? this.canvas.clientHeight;
    this.placed = arrange(groups, rows.count, this.width, room, this.options);
    this.picker = new Picker(this.placed);
    this.shown = Int32Array.from(this.picker.rows);
    this.groupOf = new Int32Array(rows.count).fill(-1);
    this.left = new Int32Array(rows.count).fill(OUTSIDE); // where each row is drawn, in pixels of the screen
    this.top = new Int32Array(rows.count).fill(OUTSIDE);
    groups.forEach((one, g) => { for (const row of one.rows) this.groupOf[row] = g; });
    this.isOfNodes = rows.columns.length > FLAGS + 1;
    this.tally = this.isOfNodes ? new NodeTally(rows, this.groupOf, groups.length, fill) : new Tally(rows, this.groupOf, groups.length, fill, this.stateOfImport);
    for (const row of this.shown) this.tally.update(row);
    this.paints = fill.ramp ? palette(fill, this.k.theme, this.range) : null;
    this.resize(Math.min(room, Math.max(this.placed.height, this.options.hug ? 0 : room)));
    this.camera.frame(this.width, this.height, { width: this.width, height: this.placed.height, closest: closest(this.placed) });
    this.measure();
    this.redraw();
  }

  /** New values of these rows: drawn with the next frame of the screen. */
  update(changed) {
    const { recount } = this.rows;
    for (let i = 0; i < changed.length; i += 1) {
      const row = changed[i];
      if (!recount[row]) continue;
      recount[row] = 0;
      this.tally.update(row);
    }
    if (this.isWholeDue) return;
    for (let i = 0; i < changed.length; i += 1) this.drawRow(changed[i]);
    this.isFlushDue = true;
    this.schedule();
  }

  /** Only rows for which `holds(row)` keep their colours; null: all do. */
  brushBy(holds) {
    this.brush = holds;
    this.redraw();
  }

  focusOn(row) {
    this.focus = row;
    this.placeRing();
  }

  zoomTo(zoom, px, py) { this.camera.zoomTo(zoom, px, py); this.measure(); this.redraw(); }
  pan(dx, dy) { this.camera.pan(dx, dy); this.redraw(); }

  reveal(row) {
    const { x, y, size, sizeY } = this.placed, { x: left, y: top } = this.camera;
    if (row === null || Number.isNaN(x[row] ?? NaN)) return;
    this.camera.reveal(x[row], y[row], size, sizeY);
    if (this.camera.x !== left || this.camera.y !== top) this.redraw();
  }

  /** The row at a point of the canvas in CSS px; null where there is none. */
  at(px, py) {
    const { zoom, x, y } = this.camera;
    return this.picker.at((px + x) / zoom, (py + y) / zoom);
  }

  /** Where a row is drawn, in CSS px of the canvas. */
  box(row) {
    const { placed } = this, { zoom, x, y } = this.camera;
    return { x: placed.x[row] * zoom - x, y: placed.y[row] * zoom - y, width: this.cellWidth, height: this.cellHeight, pitch: placed.pitch * zoom };
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
    this.names.remove();
    this.ring.remove();
  }

  // ---- the buffer ----

  resize(height) {
    const ratio = devicePixelRatio || 1;
    if (this.options.hug) this.canvas.style.height = `${height}px`;
    this.height = this.canvas.clientHeight;
    this.ratio = ratio;
    for (const canvas of [this.canvas, this.names]) {
      canvas.width = Math.round(this.width * ratio);
      canvas.height = Math.round(this.height * ratio);
    }
    Object.assign(this.names.style, { width: `${this.width}px`, height: `${this.height}px`, left: `${this.canvas.offsetLeft}px`, top: `${this.canvas.offsetTop}px` });
    this.image = this.context.createImageData(this.canvas.width, this.canvas.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.headerHeight = this.options.labels ?? 22;
    this.headers = new Headers(this.names.getContext("2d"), this);
  }

  /** The size of cells under the present zoom, and how they look at it. */
  measure() {
    const { placed, camera, ratio, fill } = this, { zoom } = camera;
    this.cellWidth = Math.max(2, Math.round(placed.size * zoom));
    this.cellHeight = Math.max(2, Math.round(placed.sizeY * zoom));
    const same = this.sprites && this.sprites.w === this.cellWidth && this.sprites.h === this.cellHeight && this.sprites.ratio === ratio && this.sprites.paints === this.paints && this.sprites.k === this.k;
    if (!same) this.sprites = new Sprites(this.k, this.paints, this.cellWidth, this.cellHeight, ratio, (byte) => byte * (fill.step ?? 0.5));
    this.marked = Uint8Array.from(STATE_NAMES, (name) => Number(Boolean(this.paints) && isMarked(name, this.cellWidth)));
    this.ground = rgba(this.k.surface);
  }

  redraw() {
    this.isWholeDue = true;
    this.schedule();
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(this.paint);
  }

  drawNow() {
    this.scheduled = false;
    if (!this.image) return;
    if (this.isWholeDue) this.drawAll();
    if (this.isWholeDue || this.isFlushDue) this.context.putImageData(this.image, 0, 0);
    this.headers.draw(this.isWholeDue);
    this.isWholeDue = this.isFlushDue = false;
    this.placeRing();
  }

  drawAll() {
    this.pixels.fill(this.ground);
    const { shown, placed, camera, ratio, left, top } = this;
    for (let i = 0; i < shown.length; i += 1) {
      const row = shown[i];
      left[row] = Math.round((placed.x[row] * camera.zoom - camera.x) * ratio);
      top[row] = Math.round((placed.y[row] * camera.zoom - camera.y) * ratio);
      this.drawRow(row);
    }
  }

  drawRow(row) {
    const { sprites, image } = this, { width, height } = sprites, left = this.left[row], top = this.top[row];
    if (left >= image.width || top >= image.height || left + width <= 0 || top + height <= 0) return;
    this.blit(sprites.get(this.keyOf(row)), left, top, width, height);
  }

  keyOf(row) {
    const { rows, fill } = this, { columns } = rows, look = lookOf(rows, row, fill), dim = this.brush !== null && !this.brush(row);
    const told = columns[LOOK][row], live = told !== STALE && told !== UNREACHABLE && told !== UNSUPPORTED;
    const state = live ? stateIndex(rows, row) : 0, guest = look === OK && this.cellWidth >= ROOMY && (columns[FLAGS][row] & FLAG.OFFLINE) !== 0;
    const mark = this.marked[state] ? state : 0, isCovered = mark !== 0 && this.cellWidth < ROOMY && look !== ZERO, isColoured = look === OK || look === ZERO || look === STALE;
    return keyOf(look, isColoured && !isCovered ? byteOf(rows, row, fill) : 0, mark, guest, this.isOfNodes && silentOf(rows, row) > 0, dim);
  }

  blit(from, left, top, width, height) {
    const to = this.pixels, stride = this.image.width, startX = Math.max(0, -left), endX = Math.min(width, stride - left), endY = Math.min(height, this.image.height - top);
    for (let y = Math.max(0, -top); y < endY; y += 1) {
      const target = (top + y) * stride + left, source = y * width;
      for (let x = startX; x < endX; x += 1) to[target + x] = from[source + x];
    }
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

function layer(canvas, name) {
  const made = document.createElement(name);
  made.className = "layer";
  made.setAttribute("aria-hidden", "true");
  canvas.after(made);
  return made;
}

/** A colour as one pixel of ImageData (little endian: alpha, blue, green, red). */
function rgba(css) {
  const [r, g, b] = css.match(/\d+(\.\d+)?/g).map(Number);
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}
