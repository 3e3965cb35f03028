// Paints the live map into a buffer of pixels: cells, and names and counts over them. Runs in a worker or in the page, and knows neither.
import { FLAG, FLAGS, LOOK, OK, STALE, UNREACHABLE, UNSUPPORTED, ZERO } from "../wire.js";
import { rowsWhere, silentOf } from "../store.js";
import { holds } from "./brush.js";
import { cellSize } from "./camera.js";
import { byteOf, lookOf, palette, stateIndex } from "./colour.js";
import { Headers } from "./headers.js";
import { NOTHING, exposed, touches } from "./sight.js";
import { ROOMY, STATE_NAMES, Sprites, isMarked, keyOf } from "./sprites.js";
import { News, NodeTally, Tally } from "./tally.js";

const NONE = -1;

export class Painter {
  constructor(canvas) {
    Object.assign(this, { canvas, rows: null, brush: null, x: 0, y: 0 }); // x, y: of the window on the map, in pixels of the screen
    this.context = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
    this.headers = new Headers(this);
    this.counted = new News();
    this.paint = () => this.paintNow();
  }

  /**
   * Another map: { placed (as `arrange` answers it), groupOf (by row, -1 where it has no place), imported (by row, 1 without an agent; null), fill,
   * range, k (inks), width, height (CSS px), ratio, labels, font, compact }, the camera { zoom, x, y } that looks at it, and its rows.
   */
  show(view, camera, rows) {
    Object.assign(this, view, { camera, isWholeDue: true });
    const { groupOf, fill, imported } = this, groups = this.placed.groups.length;
    this.isOfNodes = rows.columns.length > FLAGS + 1;
    this.shown = rowsWhere(rows.count, (row) => groupOf[row] >= 0);
    this.left = new Int32Array(rows.count); // where each row stands on the map under the present zoom, in pixels of the screen
    this.top = new Int32Array(rows.count);
    this.drawn = new Int32Array(rows.count); // the key that each row was drawn by
    this.tally = this.isOfNodes ? new NodeTally(rows, groupOf, groups, fill) : new Tally(rows, groupOf, groups, fill, imported);
    this.paints = fill.ramp ? palette(fill, this.k.theme, this.range) : null;
    this.cells(rows);
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
    this.isWholeDue ||= camera.zoom !== this.camera.zoom;
    this.camera = camera;
    this.schedule();
  }

  /** Only rows in this part of the legend keep their colours; null: all do. */
  keep(brush) {
    this.brush = brush;
    this.holds = this.rows && holds(brush, this.rows, this.fill, this.imported);
    this.schedule();
  }

  /** Nobody sees the map until it is shown again. */
  rest() { this.rows = null; }

  schedule() {
    if (this.isScheduled || !this.rows) return;
    this.isScheduled = true;
    requestAnimationFrame(this.paint);
  }

  paintNow() {
    this.isScheduled = false;
    if (!this.rows) return;
    this.follow();
    const seen = this.isWholeDue ? this.begin() : this.move(), isDrawn = this.drawCells(seen), isWritten = this.headers.draw(seen);
    if (seen !== NOTHING || isDrawn || isWritten) this.context.putImageData(this.image, 0, 0);
    this.isWholeDue = false;
  }

  follow() {
    if (this.isCountDue) this.tally.follow(this.rows);
    this.isCountDue = false;
  }

  /** How many rows are how, as far as it is otherwise than when this was asked last: News. */
  news() {
    this.follow();
    return this.counted.of(this.tally.total);
  }

  // ---- the buffer, and the window of it ----

  /** An empty buffer for another map or another zoom; all of it has come into sight. */
  begin() {
    this.resize();
    this.measure();
    this.pixels.fill(this.ground);
    [this.x, this.y] = this.corner();
    return { x: 0, toX: this.image.width, y: 0, toY: this.image.height };
  }

  resize() {
    const { canvas, ratio, image } = this, width = Math.round(this.width * ratio), height = Math.round(this.height * ratio);
    if (image?.width === width && image.height === height && this.headers.ratio === ratio) return;
    Object.assign(canvas, { width, height });
    this.image = this.context.createImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.headers.resize(this.width, ratio);
  }

  /** The size and the places of cells under the present zoom, and how they look at it. */
  measure() {
    const { placed, camera: { zoom }, ratio, fill, k, paints, sprites, shown, left, top } = this, [w, h] = cellSize(placed, zoom);
    this.cellWidth = w;
    const same = sprites && sprites.w === w && sprites.h === h && sprites.ratio === ratio && sprites.paints === paints && sprites.k === k;
    if (!same) this.sprites = new Sprites(k, paints, w, h, ratio, (byte) => byte * (fill.step ?? 0.5));
    this.marked = Uint8Array.from(STATE_NAMES, (name) => Number(Boolean(paints) && isMarked(name, w)));
    this.ground = pixelOf(k.surface);
    for (const row of shown) {
      left[row] = Math.round(placed.x[row] * zoom * ratio);
      top[row] = Math.round(placed.y[row] * zoom * ratio);
    }
  }

  corner() { return [this.camera.x, this.camera.y].map((at) => Math.round(at * this.ratio)); }

  /** Moves what is drawn as the camera went, in whole pixels, and empties what came into sight; answers that. */
  move() {
    const { pixels, ground, image: { width, height } } = this, [x, y] = this.corner(), dx = x - this.x, dy = y - this.y, by = dy * width + dx;
    if (dx === 0 && dy === 0) return NOTHING;
    Object.assign(this, { x, y });
    if (by > 0) pixels.copyWithin(0, by);
    else pixels.copyWithin(-by, 0);
    const seen = exposed(dx, dy, width, height);
    pixels.fill(ground, seen.y * width, seen.toY * width);
    if (dx !== 0) for (let line = 0; line < height; line += 1) pixels.fill(ground, line * width + seen.x, line * width + seen.toX);
    return seen;
  }

  /** Draws what came into sight, and rows that look otherwise than they were drawn; answers whether there were any. */
  drawCells(seen) {
    const { shown, left, top, x, y, drawn, sprites: { width, height } } = this;
    let isDrawn = false;
    for (const row of shown) {
      const atX = left[row] - x, atY = top[row] - y;
      if (touches(seen, atX, atY, atX + width, atY + height)) drawn[row] = NONE;
      isDrawn = this.drawRow(row, atX, atY) || isDrawn;
    }
    return isDrawn;
  }

  /** Draws a row that is in the window and looks otherwise than it was drawn; answers whether it did. */
  drawRow(row, left, top) {
    const { sprites, image, drawn } = this, { width, height } = sprites;
    if (left >= image.width || top >= image.height || left + width <= 0 || top + height <= 0) return false;
    const key = this.keyOf(row);
    if (key === drawn[row]) return false;
    drawn[row] = key;
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
