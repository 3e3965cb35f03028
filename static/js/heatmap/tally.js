// How many rows are how: of each group for its header, of all (`total`, by the numbers of KIND_AT) for the legend. DOM-free.
import { whole } from "../figures.js";
import { COUNT, FLAG, FLAGS, LOOK, STALE, STATES, UNREACHABLE, UNSUPPORTED, ZERO } from "../wire.js";
import { PENDING, lookOf, stateIndex } from "./colour.js";

/** Words that are counted: states (suspect hardware for itself), silence, looks, guests. */
export const KINDS = [...STATES, "QUARANTINED", "NO_DATA", "ZERO", "IDLE", "STALE", "UNREACHABLE", "UNSUPPORTED", "GUESTS"];
export const KIND_AT = Object.fromEntries(KINDS.map((kind, i) => [kind, i]));
const LOOK_AT = KIND_AT.ZERO; // looks follow in the order of wire.js, from ZERO on
const GUEST = 1, HEARD = 2;

/** What is told of counts: those that are others than were told before, as they are written. */
export class News {
  constructor() { this.told = new Int32Array(KINDS.length).fill(-1); }

  /** [kind, text, …] of a `total`, flat: a page that is woken by it has little to unpack. */
  of(total) {
    const { told } = this, news = [];
    total.forEach((count, kind) => { if (count !== told[kind]) news.push(kind, whole(told[kind] = count)); });
    return news;
  }
}

export class Tally {
  /** `groupOf` names the group of each row, -1 where it is not shown; `imported` marks GPUs without an agent. */
  constructor(rows, groupOf, groups, fill, imported) {
    Object.assign(this, { rows, groupOf, fill, imported, counts: new Int32Array(groups * KINDS.length), total: new Int32Array(KINDS.length) });
    this.seen = new Uint16Array(rows.count); // the class under which a row was counted, plus one
    this.changed = new Uint8Array(groups);
  }

  of(group, kind) { return this.counts[group * KINDS.length + KIND_AT[kind]]; }

  /** Counts what is otherwise than before. */
  follow(rows) {
    this.rows = rows;
    for (let row = 0; row < rows.count; row += 1) if (this.groupOf[row] >= 0) this.update(row, this.groupOf[row]);
  }

  update(row, group) {
    const now = this.classOf(row), before = this.seen[row];
    if (now === before) return;
    if (before) this.add(group, before, -1);
    this.add(group, now, 1);
    this.seen[row] = now;
    this.changed[group] = 1;
  }

  /** Look, state and what else is counted, packed into a number above 0. */
  classOf(row) {
    const { columns } = this.rows, look = columns[LOOK][row], heard = look !== STALE && look !== UNREACHABLE;
    const guest = heard && look !== UNSUPPORTED && columns[FLAGS][row] & FLAG.OFFLINE ? GUEST : 0;
    const state = look === UNSUPPORTED && this.imported?.[row] ? 0 : stateIndex(this.rows, row);
    const drawn = lookOf(this.rows, row, this.fill), shown = drawn === PENDING ? look : drawn;
    return 1 + (((shown << 4) | state) << 2 | guest | (heard ? HEARD : 0));
  }

  add(group, packed, by) {
    const bits = packed - 1, look = bits >> 6, state = (bits >> 2) & 15;
    this.bump(group, bits & HEARD ? state : KIND_AT.NO_DATA, by);
    if (look > 0) this.bump(group, LOOK_AT + look - 1, by);
    if (bits & GUEST) this.bump(group, KIND_AT.GUESTS, by);
  }

  bump(group, kind, by) {
    this.counts[group * KINDS.length + kind] += by;
    this.total[kind] += by;
  }
}

/** The same of nodes, whose tiles bring their counts along. */
export class NodeTally {
  constructor(rows, groupOf, groups, fill) {
    Object.assign(this, { rows, groupOf, fill, counts: new Int32Array(groups * KINDS.length), total: new Int32Array(KINDS.length), changed: new Uint8Array(groups) });
  }

  of(group, kind) { return this.counts[group * KINDS.length + KIND_AT[kind]]; }

  /** A few thousand rows at most: summed up anew. */
  follow(rows) {
    const before = this.counts.slice();
    this.rows = rows;
    this.counts.fill(0);
    this.total.fill(0);
    for (let row = 0; row < rows.count; row += 1) if (this.groupOf[row] >= 0) this.sum(row, this.groupOf[row]);
    this.counts.forEach((count, i) => { if (count !== before[i]) this.changed[Math.floor(i / KINDS.length)] = 1; });
  }

  sum(row, group) {
    const { columns } = this.rows, add = (kind, n) => { this.counts[group * KINDS.length + KIND_AT[kind]] += n; this.total[KIND_AT[kind]] += n; };
    for (const kind of KINDS) if (kind in COUNT) add(kind, columns[COUNT[kind]][row]);
    add("NO_DATA", columns[COUNT.STALE][row] + columns[COUNT.UNREACHABLE][row]);
    if (lookOf(this.rows, row, this.fill) === ZERO) add("ZERO", 1);
  }
}
