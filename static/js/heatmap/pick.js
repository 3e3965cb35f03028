// Which cell lies under a point, and which one is next in a direction. Pure.

import { rowsWhere } from "../store.js";

export class Picker {
  /** `placed` as `arrange` answers it. */
  constructor(placed) {
    this.placed = placed;
    this.rows = rowsWhere(placed.x.length, (row) => !Number.isNaN(placed.x[row]));
    this.side = Math.max(8, Math.ceil(Math.max(placed.pitch, placed.pitchY)));
  }

  /** Rows by the square that they begin in; made when somebody first points at one. */
  get buckets() {
    const { x, y } = this.placed, buckets = new Map();
    for (const row of this.rows) {
      const key = this.key(x[row], y[row]), there = buckets.get(key);
      if (there) there.push(row);
      else buckets.set(key, [row]);
    }
    Object.defineProperty(this, "buckets", { value: buckets });
    return buckets;
  }

  key(x, y) { return Math.floor(x / this.side) * 65536 + Math.floor(y / this.side); }

  /** The row at a point, gutters included; null between tiles. */
  at(px, py) {
    const { x, y, pitch, pitchY } = this.placed;
    for (const dx of [0, -this.side]) for (const dy of [0, -this.side]) {
      for (const row of this.buckets.get(this.key(px + dx, py + dy)) ?? []) {
        if (px >= x[row] - 1 && px < x[row] + pitch && py >= y[row] - 1 && py < y[row] + pitchY) return row;
      }
    }
    return null;
  }

  /** The nearest row in a direction (dx, dy of -1, 0, 1); the same row at the edge; the first one when there is no focus yet. */
  step(from, dx, dy) {
    if (from === null || !this.rows.length) return this.first();
    const { x, y } = this.placed;
    let best = from, least = Infinity;
    for (const row of this.rows) {
      const ex = x[row] - x[from], ey = y[row] - y[from];
      if (row === from || ex * dx + ey * dy <= 0) continue;
      const distance = Math.abs(ex) * (dx ? 1 : 6) + Math.abs(ey) * (dy ? 1 : 6);
      if (distance < least) { least = distance; best = row; }
    }
    return best;
  }

  first() { return this.extreme((a, b) => a < b); }
  last() { return this.extreme((a, b) => a > b); }

  extreme(before) {
    const { x, y } = this.placed, at = (row) => y[row] * 1e5 + x[row];
    return this.rows.length ? this.rows.reduce((best, row) => (before(at(row), at(best)) ? row : best)) : null;
  }
}
