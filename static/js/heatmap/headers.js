// Names and counts over each group, names of nodes over their cells: a canvas of text that is drawn anew when it moves or a count changes.
import { whole } from "../figures.js";
import { FONT, glyphAt } from "./sprites.js";

const NAMED_FROM = 22, LINE = 18; // px of a cell from which nodes are named; px of a header
const TOLD = ["NO_DATA", "OVERLIMIT", "UNHEALTHY"]; // from the right

export class Headers {
  constructor(context, painter) {
    Object.assign(this, { c: context, painter, widths: new Map(), font: "" });
  }

  /** All of them, or only those of groups whose counts changed. */
  draw(all) {
    const { c, painter } = this, { ratio, tally, placed } = painter;
    if (painter.labels === 0) return;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (all) { c.clearRect(0, 0, painter.width, painter.height); this.drawTiles(); }
    placed.groups.forEach((one, g) => {
      if (!all && (!tally.changed[g] || painter.compact)) return;
      tally.changed[g] = 0;
      this.drawGroup(one, g);
    });
  }

  drawTiles() {
    const { placed, camera, k, width, height } = this.painter, { zoom } = camera;
    if (placed.pitch * zoom < NAMED_FROM || placed.nameRoom * zoom < 12) return;
    for (const tile of placed.tiles) {
      const x = tile.x * zoom - camera.x, y = tile.y * zoom - camera.y;
      if (x > width || y > height || x + tile.width * zoom < 0 || y < -LINE) continue;
      this.label(tile.name, x, y - 13, tile.width * zoom, `500 11px ${FONT}`, k.ink3);
    }
  }

  drawGroup(one, g) {
    const { c, painter } = this, { camera, k, labels, compact, font } = painter, { zoom } = camera;
    const left = one.x * zoom - camera.x, y = (one.y + labels) * zoom - camera.y - labels, wide = one.width * zoom;
    if (y > painter.height || y < -LINE * 2 || left > painter.width || left + wide < 0) return;
    const x = left < 0 ? 8 : left, end = Math.min(left + wide, painter.width - 8);
    c.clearRect(x - 1, y, end - x + 2, LINE);
    const right = compact ? end : this.drawCounts(one, g, x, end, y);
    const name = this.label(one.name, x, y + 2, right - x - 8, `600 ${font}px ${FONT}`, k.ink);
    if (!compact && one.note && name + 60 < right - x) this.label(one.note, x + name + 8, y + 3, right - x - name - 16, `400 11px ${FONT}`, k.ink3);
  }

  /** Right-aligned; answers where the text on the left must end. */
  drawCounts(one, g, left, end, y) {
    const { c, painter } = this, { k, tally } = painter;
    let right = end;
    c.textBaseline = "top";
    for (const state of TOLD) {
      const count = tally.of(g, state);
      if (!count || right - left < 90) continue;
      const text = whole(count), wide = this.width(text, `500 11px ${FONT}`);
      c.fillStyle = k.ink2;
      c.fillText(text, right - wide, y + 3);
      glyphAt(c, state, right - wide - 15, y + 3, 11, k.tone[state]);
      right -= wide + 23;
    }
    const text = `${whole(one.size)} GPU${one.size === 1 ? "" : "s"}`, wide = this.width(text, `400 11px ${FONT}`);
    if (right - left < wide + 60) return right;
    c.fillStyle = k.ink3;
    c.fillText(text, right - wide, y + 3);
    return right - wide;
  }

  /** Text cut to `width` from its start (the end of a node's name tells more); answers its width. */
  label(text, x, y, width, font, ink) {
    const { c } = this;
    let shown = text;
    while (shown.length > 2 && this.width(shown, font) > width) shown = `…${shown.slice(shown.startsWith("…") ? 2 : 1)}`;
    if (shown.length <= 2 && shown !== text) return 0;
    this.width(shown, font);
    c.textBaseline = "top";
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
