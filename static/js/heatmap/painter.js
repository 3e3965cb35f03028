// Paints the live map: cells as pixels in a buffer of their own, names and counts on a canvas above. Runs in a worker or in the page, and knows neither.
import { FLAG, FLAGS, LOOK, OK, STALE, UNREACHABLE, UNSUPPORTED, ZERO } from "../wire.js";
import { silentOf } from "../store.js";
import { holds } from "./brush.js";
import { cellSize } from "./camera.js";
import { byteOf, lookOf, palette, stateIndex } from "./colour.js";
import { Headers } from "./headers.js";
import { ROOMY, STATE_NAMES, Sprites, isMarked, keyOf } from "./sprites.js";
import { NodeTally, Tally } from "./tally.js";

const NONE = -1, OUTSIDE = -1e6;

export class Painter {
  /** `onCounts` is told how many rows are how, as Tally.total holds it, whenever that was counted. */
  constructor(cells, names, onCounts) {
    Object.assign(this, { canvas: cells, names, onCounts, rows: null, brush: null });
    this.context = cells.getContext("2d", { alpha: false, willReadFrequently: true });
    this.paint = () => this.paintNow();
  }

  /**
   * Another map: { placed (as `arrange` answers it), groupOf (by row, -1 where it has no place), imported (by row, 1 without an agent; null), fill,
   * range, k (inks), width, height (CSS px), ratio, labels, font, compact }, the camera { zoom, x, y } that looks at it, and its rows.
   */
  show(view, camera, rows) {
    Object.assign(this, view);
    const { groupOf, fill, imported } = this, groups = this.placed.groups.length;
    this.isOfNodes = rows.columns.length > FLAGS + 1;
    this.shown = Int32Array.from(groupOf.keys()).filter((row) => groupOf[row] >= 0);
    this.left = new Int32Array(rows.count).fill(OUTSIDE); // where each row is drawn, in pixels of the screen
    this.top = new Int32Array(rows.count).fill(OUTSIDE);
    this.drawn = new Int32Array(rows.count).fill(NONE); // the key that each row was drawn by
    this.tally = this.isOfNodes ? new NodeTally(rows, groupOf, groups, fill) : new Tally(rows, groupOf, groups, fill, imported);
    this.paints = fill.ramp ? palette(fill, this.k.theme, this.range) : null;
    this.isSizeDue = true;
    this.cells(rows);
    this.look(camera);
  }

  /** New values: drawn with the next frame of the screen. */
  cells(rows) {
    this.rows = rows;
    this.holds = holds(this.brush, rows, this.fill, this.imported);
    this.isCountDue = true;
    this.schedule();
  }

  /** Zoomed or moved. */
  look(camera) {
    this.camera = camera;
    this.redraw();
  }

  /** Only rows in this part of the legend keep their colours; null: all do. */
  keep(brush) {
    this.brush = brush;
    this.holds = this.rows && holds(brush, this.rows, this.fill, this.imported);
    this.schedule();
  }

  redraw() {
    this.isWholeDue = true;
    this.schedule();
  }

  schedule() {
    if (this.isScheduled || !this.rows) return;
    this.isScheduled = true;
    requestAnimationFrame(this.paint);
  }

  paintNow() {
    this.isScheduled = false;
    if (this.isSizeDue) this.resize();
    if (this.isWholeDue) this.measure();
    if (this.isCountDue) this.count();
    const isChanged = this.isWholeDue ? this.drawAll() : this.drawChanged();
    if (isChanged) this.context.putImageData(this.image, 0, 0);
    this.headers.draw(this.isWholeDue);
    this.isSizeDue = this.isWholeDue = this.isCountDue = false;
  }

  count() {
    this.tally.follow(this.rows);
    this.onCounts(this.tally.total);
  }

  // ---- the buffer ----

  resize() {
    const { ratio } = this, width = Math.round(this.width * ratio), height = Math.round(this.height * ratio);
    for (const canvas of [this.canvas, this.names]) Object.assign(canvas, { width, height });
    this.image = this.context.createImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.headers = new Headers(this.names.getContext("2d"), this);
  }

  /** The size of cells under the present zoom, and how they look at it. */
  measure() {
    const { placed, camera, ratio, fill, k, paints } = this, [w, h] = cellSize(placed, camera.zoom), { sprites } = this;
    this.cellWidth = w;
    const same = sprites && sprites.w === w && sprites.h === h && sprites.ratio === ratio && sprites.paints === paints && sprites.k === k;
    if (!same) this.sprites = new Sprites(k, paints, w, h, ratio, (byte) => byte * (fill.step ?? 0.5));
    this.marked = Uint8Array.from(STATE_NAMES, (name) => Number(Boolean(paints) && isMarked(name, w)));
    this.ground = pixelOf(k.surface);
  }

  drawAll() {
    this.pixels.fill(this.ground);
    const { shown, placed, camera, ratio, left, top } = this;
    for (let i = 0; i < shown.length; i += 1) {
      const row = shown[i];
      left[row] = Math.round((placed.x[row] * camera.zoom - camera.x) * ratio);
      top[row] = Math.round((placed.y[row] * camera.zoom - camera.y) * ratio);
      this.drawn[row] = NONE;
      this.drawRow(row);
    }
    return true;
  }

  /** Answers whether any was. */
  drawChanged() {
    const { shown } = this;
    let isChanged = false;
    for (let i = 0; i < shown.length; i += 1) isChanged = this.drawRow(shown[i]) || isChanged;
    return isChanged;
  }

  /** Draws a row that is seen and looks otherwise than it was drawn; answers whether it did. */
  drawRow(row) {
    const { sprites, image } = this, { width, height } = sprites, left = this.left[row], top = this.top[row];
    if (left >= image.width || top >= image.height || left + width <= 0 || top + height <= 0) return false;
    const key = this.keyOf(row);
    if (key === this.drawn[row]) return false;
    this.drawn[row] = key;
    this.blit(sprites.get(key), left, top, width, height);
    return true;
  }

  keyOf(row) {
    const { rows, fill } = this, { columns } = rows, look = lookOf(rows, row, fill), dim = this.holds !== null && !this.holds(row);
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
}

/** A colour as one pixel of ImageData (little endian: alpha, blue, green, red). */
function pixelOf(css) {
  const [r, g, b] = css.match(/\d+(\.\d+)?/g).map(Number);
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}
