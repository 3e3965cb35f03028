// How one cell looks, drawn once for each look, colour, state and size, and kept as pixels.
import { GLYPHS, GPU_LOOKS } from "../glyphs.js";
import { IDLE, OK, STALE, STATES, UNREACHABLE, UNSUPPORTED, ZERO } from "../wire.js";
import { PENDING } from "./colour.js";

export const FONT = '"Inter Variable", Inter, sans-serif';
export const STATE_NAMES = [...STATES, "QUARANTINED"];
const SMALL = 8; // px: below, a mark is the whole cell
export const ROOMY = 26; // px: from here on a cell has room for a number
const KEYS = 1 << 18, MOST_KEPT = 4_096;
// Marked on the map whatever fills it. In roomy cells Busy is marked as well; in small ones it would be most of the map.
const LOUD = new Set(["OVERLIMIT", "GUARDED", "QUARANTINED", "COOLDOWN", "DISABLED"]);
// Filled by state, these stay pale: what is as it should be must not be the loudest.
export const QUIET = new Set(["HEALTHY", "INIT", "DISABLED"]);
const OUTLINES = Object.fromEntries(Object.entries(GLYPHS).map(([name, path]) => [name, globalThis.Path2D && new Path2D(path)]));

/** Whether a state is drawn as a mark over what fills a cell of this size. */
export const isMarked = (name, size) => LOUD.has(name) ? size >= SMALL || (name !== "COOLDOWN" && name !== "DISABLED") : name === "UNHEALTHY" && size >= ROOMY;

/** One cell. `ground` is its colour on the ramp, used by the looks that have one. The legend draws with this as well. */
export function drawCell(c, x, y, w, h, look, ground, k) {
  if (look === IDLE) return frame(c, x, y, w, h, k.hollow);
  if (look === UNSUPPORTED) return drawUnsupported(c, x, y, w, h, k);
  if (look === UNREACHABLE) return drawUnreachable(c, x, y, w, h, k);
  c.fillStyle = look === PENDING ? k.pending : ground;
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
  cross(c, x + w / 2, y + h / 2, Math.min(w, h, 26) * 0.24, Math.max(1.2, Math.min(w / 9, 2)), k.emptyInk);
}

function cross(c, cx, cy, arm, width, ink) {
  c.strokeStyle = ink;
  c.lineWidth = width;
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

export function glyphAt(c, name, x, y, size, ink) {
  c.save();
  c.translate(x, y);
  c.scale(size / 16, size / 16);
  c.fillStyle = ink;
  c.fill(OUTLINES[GPU_LOOKS[name].glyph], "evenodd");
  c.restore();
}

/** What a cell shows: look, byte (of the value, or the state's index), state (index), guest, silent (some of its GPUs are), dim (not in the part that is brushed). */
export const keyOf = (look, byte, state, guest, silent, dim) => ((((look << 8) | byte) << 4) | state) << 3 | (guest ? 4 : 0) | (silent ? 2 : 0) | (dim ? 1 : 0);

/** A canvas that is not on the page. */
export const scratch = (width, height) => (globalThis.OffscreenCanvas ? new OffscreenCanvas(width, height) : Object.assign(document.createElement("canvas"), { width, height }));

export class Sprites {
  /** Cells of w × h CSS px on a screen of `ratio`; `paints` is the fill's palette, null for the state. */
  constructor(k, paints, w, h, ratio, label) {
    Object.assign(this, { k, paints, w, h, ratio, label, kept: [], places: new Uint16Array(KEYS) }); // the place of a key in `kept`, plus one
    this.width = Math.max(1, Math.round(w * ratio));
    this.height = Math.max(1, Math.round(h * ratio));
    this.context = scratch(this.width, this.height).getContext("2d", { willReadFrequently: true });
  }

  /** The pixels of a cell, row by row. */
  get(key) {
    const place = this.places[key];
    return place === 0 ? this.make(key) : this.kept[place - 1];
  }

  make(key) {
    if (this.kept.length >= MOST_KEPT) { this.kept.length = 0; this.places.fill(0); }
    this.draw(key);
    const pixels = new Uint32Array(this.context.getImageData(0, 0, this.width, this.height).data.buffer);
    this.places[key] = this.kept.push(pixels);
    return pixels;
  }

  draw(key) {
    const { context: c, k, w, h, ratio } = this, look = key >> 15, byte = (key >> 7) & 255, name = STATE_NAMES[(key >> 3) & 15];
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.globalAlpha = 1;
    c.fillStyle = k.surface;
    c.fillRect(0, 0, w + 1, h + 1);
    const paint = this.paints?.[byte];
    drawCell(c, 0, 0, w, h, look, paint?.ground ?? k.fill[STATE_NAMES[byte]] ?? k.line, k);
    if (look === OK && w >= ROOMY) this.inside(c, key, paint, STATE_NAMES[byte]);
    const isLive = look !== STALE && look !== UNREACHABLE && look !== UNSUPPORTED;
    if (this.paints && isLive && isMarked(name, w)) this.mark(c, look, name);
    if (key & 2 && isLive) this.silence(c);
    if (key & 1) this.dim(c);
  }

  /** Room for more: the number or the state's glyph, and the notch of a guest. */
  inside(c, key, paint, name) {
    const { w, h, k } = this;
    if (paint) this.number(c, String(Math.round(this.label((key >> 7) & 255))), paint.ink);
    else glyphAt(c, name, w / 2 - 8, h / 2 - 8, 16, QUIET.has(name) ? k.tone[name] : k.surface);
    if (key & 4) this.corner(c, paint?.ink ?? k.ink);
  }

  number(c, text, ink) {
    const { w, h } = this;
    c.font = `500 ${w >= 36 ? 12 : 11}px ${FONT}`;
    c.textAlign = "center";
    c.textBaseline = "middle";
    c.fillStyle = ink;
    c.fillText(text, w / 2, h / 2 + 0.5);
    c.textAlign = "left";
  }

  /** A notch in the lower right corner: an offline guest is here. */
  corner(c, ink) {
    const { w, h } = this, side = 7;
    c.fillStyle = ink;
    c.beginPath();
    c.moveTo(w, h - side); c.lineTo(w, h); c.lineTo(w - side, h);
    c.fill();
  }

  /** A state that matters whatever fills the map. */
  mark(c, look, name) {
    const { w, h, k } = this, ink = k.tone[name];
    if (w >= ROOMY) return this.badge(c, name, ink);
    if (w < SMALL) {
      c.fillStyle = ink;
      c.fillRect(0, 0, w, h);
      return;
    }
    if (look !== ZERO) {
      const side = Math.min(w, h) * 0.72;
      c.fillStyle = k.surface;
      c.fillRect(0, 0, w, h);
      glyphAt(c, name, (w - side) / 2, (h - side) / 2, side, ink);
    }
    if (name !== "DISABLED") this.outline(c, ink, Math.min(w, h) > 12 ? 2 : 1.2);
  }

  /** A roomy cell keeps its number; the state stands in its corner, loud ones frame it. */
  badge(c, name, ink) {
    const { w, h, k } = this;
    if (LOUD.has(name) && name !== "DISABLED") this.outline(c, ink, 2);
    c.fillStyle = k.surface;
    c.beginPath();
    c.roundRect(w - 14, 0, 14, Math.min(14, h), [0, 0, 0, 6]);
    c.fill();
    glyphAt(c, name, w - 12, 1, 11, ink);
  }

  outline(c, ink, width) {
    c.strokeStyle = ink;
    c.lineWidth = width;
    c.strokeRect(width / 2, width / 2, this.w - width, this.h - width);
  }

  /** Some GPUs of this node are silent: a dark corner, with a cross where there is room. */
  silence(c) {
    const { w, h, k } = this, side = Math.max(3, Math.min(12, Math.min(w, h) * 0.45));
    c.fillStyle = k.empty;
    c.fillRect(0, h - side, side, side);
    if (side >= 7) cross(c, side / 2, h - side / 2, side * 0.24, 1.2, k.emptyInk);
  }

  dim(c) {
    c.globalAlpha = 0.82;
    c.fillStyle = this.k.surface;
    c.fillRect(0, 0, this.w + 1, this.h + 1);
    c.globalAlpha = 1;
  }
}
