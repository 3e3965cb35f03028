// Draws the map: cells on one canvas, state marks on a second, the focus on a third, so that each is redrawn alone.
import { GLYPHS, GPU_LOOKS } from "../glyphs.js";
import { colour, isDark, onTheme } from "../kit.js";
import { FLAG, IDLE, LOOK, OK, STALE, STATES, UNREACHABLE, UNSUPPORTED, WIDTH, ZERO } from "../wire.js";
import { FILLS, looksOf, palette, stateIndex } from "./colour.js";
import { arrange, group } from "./layout.js";
import { Picker } from "./pick.js";

const FONT = '"Inter Variable", Inter, sans-serif';
const SMALL = 8, ROOMY = 26; // px: below, a mark is a coloured frame; from here on a cell has room for a number
const STATE_NAMES = [...STATES, "QUARANTINED"];
// Marked on the map whatever fills it. In roomy cells Busy is marked as well; in small ones it would be most of the map.
const LOUD = new Set(["OVERLIMIT", "GUARDED", "QUARANTINED", "COOLDOWN", "DISABLED"]);
// Filled by state, these stay pale: what is as it should be must not be the loudest.
const QUIET = new Set(["HEALTHY", "INIT", "DISABLED"]);
const OUTLINES = Object.fromEntries(Object.entries(GLYPHS).map(([name, path]) => [name, globalThis.Path2D && new Path2D(path)]));

/** The colours of the present theme, resolved as a canvas takes them. */
export function inks() {
  const dark = isDark();
  return {
    theme: dark ? "dark" : "light",
    surface: colour("--mf-surface"), ink: colour("--mf-ink"), ink2: colour("--mf-ink-2"), ink3: colour("--mf-ink-3"), line: colour("--mf-line"),
    hollow: colour("--mf-line-strong"), accent: colour("--mf-accent"), empty: dark ? "#000000" : "#3a434e", emptyInk: dark ? "#c4ccd6" : "#ffffff",
    tone: Object.fromEntries(STATE_NAMES.concat("NO_DATA").map((name) => [name, colour(`--st-${GPU_LOOKS[name].tone}`)])),
    fill: Object.fromEntries(STATE_NAMES.map((name) => [name, colour(name === "UNHEALTHY" ? "--mk-busy" : `--st-${GPU_LOOKS[name].tone}${QUIET.has(name) ? "-soft" : ""}`)])),
  };
}

/** One cell. `ground` is its colour on the ramp, used by the looks that have one. The legend draws with this as well. */
export function drawCell(c, x, y, w, h, look, ground, k) {
  if (look === IDLE) return frame(c, x, y, w, h, k.hollow);
  if (look === UNSUPPORTED) return drawUnsupported(c, x, y, w, h, k);
  if (look === UNREACHABLE) return drawUnreachable(c, x, y, w, h, k);
  c.fillStyle = ground;
  if (look === STALE) c.globalAlpha = 0.55;
  c.fillRect(x, y, w, h);
  c.globalAlpha = 1;
  if (look === STALE) hatch(c, x, y, w, h, k.ink);
  if (look === ZERO) dot(c, x, y, w, h, k.surface);
}

function frame(c, x, y, w, h, ink) {
  c.strokeStyle = ink;
  c.lineWidth = 1;
  c.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
}

function drawUnsupported(c, x, y, w, h, k) {
  const wide = Math.max(2, Math.round(w * 0.4)), high = Math.max(1, Math.round(Math.min(w, 16) / 8));
  c.globalAlpha = 0.6;
  c.fillStyle = k.line;
  c.fillRect(x, y, w, h);
  c.globalAlpha = 1;
  c.fillStyle = k.ink3;
  c.fillRect(Math.round(x + (w - wide) / 2), Math.round(y + (h - high) / 2), wide, high);
}

function drawUnreachable(c, x, y, w, h, k) {
  c.fillStyle = k.empty;
  c.fillRect(x, y, w, h);
  if (w > 6) frame(c, x, y, w, h, k.hollow);
  const arm = Math.min(w, h, 26) * 0.24, cx = x + w / 2, cy = y + h / 2;
  c.strokeStyle = k.emptyInk;
  c.lineWidth = Math.max(1.2, Math.min(w / 9, 2));
  c.beginPath();
  c.moveTo(cx - arm, cy - arm); c.lineTo(cx + arm, cy + arm);
  c.moveTo(cx + arm, cy - arm); c.lineTo(cx - arm, cy + arm);
  c.stroke();
}

function hatch(c, x, y, w, h, ink) {
  c.save();
  c.beginPath();
  c.rect(x, y, w, h);
  c.clip();
  c.strokeStyle = ink;
  c.lineWidth = 1;
  c.beginPath();
  const step = Math.max(3, Math.min(w / 3, 6));
  for (let d = -h; d < w + h; d += step) { c.moveTo(x + d, y + h); c.lineTo(x + d + h, y); }
  c.stroke();
  c.restore();
}

function dot(c, x, y, w, h, ink) {
  c.fillStyle = ink;
  c.beginPath();
  c.arc(x + w / 2, y + h / 2, Math.max(1.4, Math.min(w * 0.2, 4)), 0, 7);
  c.fill();
}

function glyphAt(c, name, x, y, size, ink) {
  c.save();
  c.translate(x, y);
  c.scale(size / 16, size / 16);
  c.fillStyle = ink;
  c.fill(OUTLINES[GPU_LOOKS[name].glyph], "evenodd");
  c.restore();
}

/** A live map in `canvas`. `store` is read, never written. */
export class Heat {
  /** options as `arrange` takes them, and: height() px there is, hug (the canvas takes the height it needs), compact (names only). */
  constructor(canvas, store, options = {}) {
    Object.assign(this, { canvas, store, options, focus: null, view: { rows: [], by: "pool", fill: FILLS.headroom, range: undefined } });
    this.marks = overlay(canvas);
    this.ring = overlay(canvas);
    this.dirty = new Set();
    this.k = inks();
    this.groups = [];
    this.placed = arrange([], 0, 1, 1);
    this.picker = new Picker(this.placed);
    this.stopTheme = onTheme(() => { this.k = inks(); this.show({}); });
    this.resized = new ResizeObserver(() => this.canvas.clientWidth !== this.width && this.show({}));
    this.resized.observe(canvas);
  }

  /** Shows these rows, grouped and filled so; what is not named stays. Lays out and draws everything. */
  show(view) {
    Object.assign(this.view, view);
    const { rows, by, fill, range } = this.view, { store } = this;
    this.width = this.canvas.clientWidth;
    if (!this.width) return;
    this.groups = group(store.layout, rows, by, (row) => GPU_LOOKS[store.state(row)].word);
    this.placed = arrange(this.groups, store.layout.count, this.width, this.options.height?.() ?? this.canvas.clientHeight, this.options);
    this.picker = new Picker(this.placed);
    this.paints = fill.ramp ? palette(fill, this.k.theme, range) : null;
    this.resize();
    this.drawAll();
  }

  /** Draws the rows that changed, with the next frame of the screen. */
  update(rows) {
    for (const row of rows) this.dirty.add(row);
    if (this.scheduled || !this.dirty.size) return;
    this.scheduled = true;
    requestAnimationFrame(() => { this.scheduled = false; this.drawDirty(); });
  }

  focusOn(row) {
    this.focus = row;
    this.drawFocus();
  }

  destroy() {
    this.resized.disconnect();
    this.stopTheme();
    this.marks.remove();
    this.ring.remove();
  }

  resize() {
    if (this.options.hug) this.canvas.style.height = `${this.placed.height}px`;
    const ratio = devicePixelRatio || 1, width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    for (const canvas of [this.canvas, this.marks, this.ring]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      if (canvas !== this.canvas) Object.assign(canvas.style, { width: `${width}px`, height: `${height}px`, left: `${this.canvas.offsetLeft}px`, top: `${this.canvas.offsetTop}px` });
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
  }

  drawAll() {
    const c = this.canvas.getContext("2d");
    c.clearRect(0, 0, this.width, this.canvas.clientHeight);
    this.dirty.clear();
    for (const row of this.picker.rows) this.drawRow(c, row);
    for (const tile of this.placed.tiles) this.label(c, tile.name, tile.x, tile.y, tile.width, `500 11px ${FONT}`, this.k.ink3);
    this.headers = [];
    this.drawHeaders(c);
    this.drawMarks();
    this.drawFocus();
  }

  drawDirty() {
    const c = this.canvas.getContext("2d"), { x } = this.placed;
    for (const row of this.dirty) if (!Number.isNaN(x[row] ?? NaN)) this.drawRow(c, row);
    this.dirty.clear();
    this.drawHeaders(c);
    this.drawMarks();
  }

  drawRow(c, row) {
    const { placed, store, k, view } = this, x = placed.x[row], y = placed.y[row], { size, sizeY } = placed;
    const { look, byte } = looksOf(store.cells, row, view.fill), paint = this.paints?.[byte];
    c.clearRect(x, y, size, sizeY);
    drawCell(c, x, y, size, sizeY, look, paint?.ground ?? k.fill[STATE_NAMES[byte]] ?? k.line, k);
    if (look !== OK || size < ROOMY) return;
    if (paint) this.number(c, store.value(row, view.fill.field), x, y, paint.ink);
    else glyphAt(c, STATE_NAMES[byte], x + size / 2 - 8, y + sizeY / 2 - 8, 16, QUIET.has(STATE_NAMES[byte]) ? k.tone[STATE_NAMES[byte]] : k.surface);
    if (store.has(row, FLAG.OFFLINE)) this.corner(c, x, y, paint?.ink ?? k.ink);
  }

  number(c, value, x, y, ink) {
    const { size, sizeY } = this.placed;
    c.font = `500 ${size >= 36 ? 12 : 11}px ${FONT}`;
    c.fontVariantCaps = "normal";
    c.textAlign = "center";
    c.textBaseline = "middle";
    c.fillStyle = ink;
    c.fillText(String(Math.round(value)), x + size / 2, y + sizeY / 2 + 0.5);
    c.textAlign = "left";
  }

  /** A notch in the lower right corner: an offline guest is here. */
  corner(c, x, y, ink) {
    const { size, sizeY } = this.placed, side = 7;
    c.fillStyle = ink;
    c.beginPath();
    c.moveTo(x + size, y + sizeY - side);
    c.lineTo(x + size, y + sizeY);
    c.lineTo(x + size - side, y + sizeY);
    c.fill();
  }

  // ---- names and counts over each group ----

  drawHeaders(c) {
    if (this.options.labels === 0) return;
    this.placed.groups.forEach((one, g) => {
      const counts = this.options.compact ? [] : this.tally(one.rows), text = JSON.stringify(counts);
      if (this.headers[g] === text) return;
      this.headers[g] = text;
      c.clearRect(one.x - 1, one.y, one.room + 2, 18);
      const right = this.drawCounts(c, one, counts);
      const name = this.label(c, one.name, one.x, one.y + 2, right - one.x - 8, `600 ${this.options.font ?? 12}px ${FONT}`, this.k.ink);
      if (!this.options.compact && one.note && name + 60 < right - one.x) this.label(c, one.note, one.x + name + 8, one.y + 3, right - one.x - name - 16, `400 11px ${FONT}`, this.k.ink3);
    });
  }

  /** [state, count] of what a group's header tells: busy, overloaded, without live data. */
  tally(rows) {
    const counts = new Map([["UNHEALTHY", 0], ["OVERLIMIT", 0], ["NO_DATA", 0]]);
    for (const row of rows) {
      const state = this.store.state(row);
      if (counts.has(state)) counts.set(state, counts.get(state) + 1);
    }
    return [...counts].filter(([, count]) => count);
  }

  /** Right-aligned; answers where the text on the left must end. */
  drawCounts(c, { x, y, width, rows }, counts) {
    if (this.options.compact) return x + width;
    let right = x + width;
    c.textBaseline = "top";
    c.font = `500 11px ${FONT}`;
    for (const [state, count] of counts.reverse()) {
      const text = count.toLocaleString("en"), wide = c.measureText(text).width;
      c.fillStyle = this.k.ink2;
      c.fillText(text, right - wide, y + 3);
      glyphAt(c, state, right - wide - 15, y + 3, 11, this.k.tone[state]);
      right -= wide + 23;
    }
    const text = `${rows.length.toLocaleString("en")} GPU${rows.length === 1 ? "" : "s"}`;
    c.font = `400 11px ${FONT}`;
    const wide = c.measureText(text).width;
    c.fillStyle = this.k.ink3;
    c.fillText(text, right - wide, y + 3);
    return right - wide;
  }

  /** Text cut to `width` from its start (the end of a node's name tells more); answers its width. */
  label(c, text, x, y, width, font, ink) {
    c.font = font;
    c.textBaseline = "top";
    c.fillStyle = ink;
    let shown = text;
    while (shown.length > 2 && c.measureText(shown).width > width) shown = `…${shown.slice(shown.startsWith("…") ? 2 : 1)}`;
    c.fillText(shown, x, y);
    return c.measureText(shown).width;
  }

  // ---- marks and focus ----

  drawMarks() {
    const c = this.marks.getContext("2d"), { store, placed } = this;
    c.clearRect(0, 0, this.width, this.canvas.clientHeight);
    if (!this.paints) return; // filled by state, every cell is its own mark
    for (const row of this.picker.rows) {
      const at = row * WIDTH, look = store.cells[at + LOOK];
      if (look === STALE || look === UNREACHABLE || look === UNSUPPORTED) continue;
      const name = STATE_NAMES[stateIndex(store.cells, at)];
      if (LOUD.has(name) || (name === "UNHEALTHY" && placed.size >= ROOMY)) this.mark(c, row, name);
    }
  }

  mark(c, row, name) {
    const { placed, k } = this, x = placed.x[row], y = placed.y[row], { size, sizeY } = placed, ink = k.tone[name];
    if (size >= ROOMY) return this.badge(c, x, y, size, sizeY, name, ink);
    if (size < SMALL) {
      if (name === "COOLDOWN" || name === "DISABLED") return;
      c.fillStyle = k.surface;
      c.fillRect(x - 1.5, y - 1.5, size + 3, sizeY + 3);
      c.fillStyle = ink;
      c.fillRect(x - 0.5, y - 0.5, size + 1, sizeY + 1);
      return;
    }
    if (name !== "DISABLED") this.outline(c, x, y, size, sizeY, ink, 2);
    if (looksOf(this.store.cells, row, this.view.fill).look === ZERO) return;
    const side = size * 0.76;
    c.fillStyle = k.surface;
    c.fillRect(x, y, size, sizeY);
    glyphAt(c, name, x + (size - side) / 2, y + (sizeY - side) / 2, side, ink);
  }

  /** A roomy cell keeps its number; the state stands in its corner, loud ones frame it. */
  badge(c, x, y, size, sizeY, name, ink) {
    if (LOUD.has(name) && name !== "DISABLED") this.outline(c, x, y, size, sizeY, ink, 2);
    c.fillStyle = this.k.surface;
    c.beginPath();
    c.arc(x + size - 4, y + 4, 7.5, 0, 7);
    c.fill();
    glyphAt(c, name, x + size - 9.5, y - 1.5, 11, ink);
  }

  outline(c, x, y, w, h, ink, width) {
    c.strokeStyle = this.k.surface;
    c.lineWidth = width * 2;
    c.strokeRect(x - 1, y - 1, w + 2, h + 2);
    c.strokeStyle = ink;
    c.lineWidth = width;
    c.strokeRect(x - 1, y - 1, w + 2, h + 2);
  }

  drawFocus() {
    const c = this.ring.getContext("2d"), { placed, focus } = this;
    c.clearRect(0, 0, this.width, this.canvas.clientHeight);
    if (focus === null || Number.isNaN(placed.x[focus] ?? NaN)) return;
    const x = placed.x[focus] - 3, y = placed.y[focus] - 3, w = placed.size + 6, h = placed.sizeY + 6;
    c.strokeStyle = this.k.surface;
    c.lineWidth = 7;
    c.strokeRect(x, y, w, h);
    c.strokeStyle = this.k.accent;
    c.lineWidth = 3;
    c.strokeRect(x, y, w, h);
  }
}

function overlay(canvas) {
  const layer = document.createElement("canvas");
  layer.className = "layer";
  layer.setAttribute("aria-hidden", "true");
  canvas.after(layer);
  return layer;
}
