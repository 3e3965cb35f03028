// Names and counts over each group, names of nodes over their cells: text that becomes pixels of the painter's buffer, and moves with them.
import { whole } from "../figures.js";
import { FONT, glyphAt, scratch } from "./sprites.js";
import { NOTHING, touches } from "./sight.js";

const NAMED_FROM = 22; // px of a cell from which nodes are named
const LINE = 18, TILE_LINE = 13, EDGE = 8; // px: of a group's line, of a node's, between the window's edge and a name that it cuts
const TOLD = ["NO_DATA", "OVERLIMIT", "UNHEALTHY"]; // from the right

export class Headers {
  constructor(painter) {
    Object.assign(this, { painter, widths: new Map() });
  }

  /** For a window this wide, in CSS px. */
  resize(width, ratio) {
    this.c = scratch(Math.ceil(width * ratio), Math.ceil(LINE * ratio)).getContext("2d", { willReadFrequently: true });
    this.c.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.c.textBaseline = "top";
    Object.assign(this, { ratio, font: "" });
  }

  /** Those that came into sight, that the window cuts, or whose counts changed; answers whether there were any. */
  draw(seen) {
    const { tally, placed, labels, compact } = this.painter;
    if (labels === 0) return false;
    let isDrawn = this.drawTiles(seen);
    placed.groups.forEach((one, g) => {
      isDrawn = this.drawGroup(one, g, seen, tally.changed[g] === 1 && !compact) || isDrawn;
      tally.changed[g] = 0;
    });
    return isDrawn;
  }

  /** Whether nodes are named in the room over their tiles. */
  get namesTiles() {
    const { placed, camera: { zoom } } = this.painter;
    return placed.pitch * zoom >= NAMED_FROM && placed.nameRoom * zoom >= TILE_LINE;
  }

  drawTiles(seen) {
    const { placed, camera: { zoom }, k } = this.painter;
    const { names, x, y, width } = placed.tiles, wide = width * zoom;
    let isDrawn = false;
    if (seen === NOTHING || !this.namesTiles) return false;
    for (let tile = 0; tile < names.length; tile += 1) {
      const box = this.box(x[tile] * zoom, y[tile] * zoom - TILE_LINE, wide, TILE_LINE);
      if (!box || !touches(seen, ...box.at)) continue;
      this.clear();
      this.label(names[tile], -box.cut, 0, wide, `500 11px ${FONT}`, k.ink3);
      this.put(box);
      isDrawn = true;
    }
    return isDrawn;
  }

  drawGroup(one, g, seen, isOther) {
    const { painter } = this, { camera: { zoom }, k, labels, compact, font, placed } = painter;
    const above = labels + (this.namesTiles && placed.nameRoom < TILE_LINE ? TILE_LINE : 0); // px over the first line of cells
    const box = this.box(one.x * zoom, (one.y + labels) * zoom - above, one.width * zoom, LINE);
    if (!box || !(isOther || (box.isCut && seen !== NOTHING) || touches(seen, ...box.at))) return false;
    this.clear();
    const x = box.cut > 0 ? EDGE : 0, end = box.isCutRight ? box.wide - EDGE : box.wide;
    const right = compact ? end : this.drawCounts(one, g, x, end);
    const name = this.label(one.name, x, 2, right - x - 8, `600 ${font}px ${FONT}`, k.ink);
    if (!compact && one.note && name + 60 < right - x) this.label(one.note, x + name + 8, 3, right - x - name - 16, `400 11px ${FONT}`, k.ink3);
    this.put(box);
    return true;
  }

  /**
   * A box on the map under the present zoom, in CSS px, as the window shows it: { left, top, width, height } in pixels of the screen, cut to the
   * window's sides; `at`, uncut, for `touches`; cut and wide, px hidden on the left and px seen. Null where it is out of sight.
   */
  box(x, y, wide, high) {
    const { painter } = this, { ratio, image } = painter, left = Math.round(x * ratio) - painter.x, top = Math.round(y * ratio) - painter.y;
    const right = left + Math.round(wide * ratio), height = Math.round(high * ratio), from = Math.max(0, left), to = Math.min(image.width, right);
    if (from >= to || top >= image.height || top + height <= 0) return null;
    const hidden = { cut: (from - left) / ratio, wide: (to - from) / ratio, isCut: from > left || to < right, isCutRight: to < right };
    return { ...hidden, left: from, top, width: to - from, height, at: [left, top, right, top + height] };
  }

  clear() {
    const { c, painter } = this;
    c.fillStyle = painter.k.surface;
    c.fillRect(0, 0, painter.width, LINE);
  }

  /** What is written on the slip of text, into the buffer. */
  put({ left, top, width, height }) {
    const { data } = this.c.getImageData(0, 0, width, height);
    this.painter.blit(new Uint32Array(data.buffer), left, top, width, height);
  }

  /** Right-aligned; answers where the text on the left must end. */
  drawCounts(one, g, left, end) {
    const { c, painter } = this, { k, tally } = painter;
    let right = end;
    for (const state of TOLD) {
      const count = tally.of(g, state);
      if (!count || right - left < 90) continue;
      const text = whole(count), wide = this.width(text, `500 11px ${FONT}`);
      c.fillStyle = k.ink2;
      c.fillText(text, right - wide, 3);
      glyphAt(c, state, right - wide - 15, 3, 11, k.tone[state]);
      right -= wide + 23;
    }
    const text = `${whole(one.size)} GPU${one.size === 1 ? "" : "s"}`, wide = this.width(text, `400 11px ${FONT}`);
    if (right - left < wide + 60) return right;
    c.fillStyle = k.ink3;
    c.fillText(text, right - wide, 3);
    return right - wide;
  }

  /** Text cut to `width` from its start (the end of a node's name tells more); answers its width. */
  label(text, x, y, width, font, ink) {
    const { c } = this;
    let shown = text;
    while (shown.length > 2 && this.width(shown, font) > width) shown = `…${shown.slice(shown.startsWith("…") ? 2 : 1)}`;
    if (shown.length <= 2 && shown !== text) return 0;
    this.width(shown, font);
    c.fillStyle = ink;
    c.fillText(shown, x, y);
    return this.width(shown, font);
  }

  /** The width of a text, measured once; leaves the context with this font. */
  width(text, font) {
    if (this.font !== font) { this.c.font = font; this.font = font; }
    const key = `${font} ${text}`;
    let width = this.widths.get(key);
    if (width === undefined) {
      if (this.widths.size > 5_000) this.widths.clear();
      width = this.c.measureText(text).width;
      this.widths.set(key, width);
    }
    return width;
  }
}
