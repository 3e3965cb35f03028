// The live map as columns of bytes: GPUs, and nodes for maps seen from afar. What is known and what is watched. DOM-free.
import {
  COUNT, FLAG, FLAGS, LOOK, MISSING, P99, STALE, STATE, STATES, TILE_WIDTH, UNREACHABLE, UNSUPPORTED, WIDTH, isValue, write,
} from "./wire.js";

/** What the document of /live/layout.json says of each row, as columns. */
export class Layout {
  constructor(document) {
    const { gpus, nodes = {}, pools = [], models = [], services = [] } = document;
    this.epoch = document.epoch;
    this.ids = Uint32Array.from(gpus.id ?? []);
    this.count = this.ids.length;
    this.rowOf = new Map(Array.from(this.ids, (id, row) => [id, row]));
    this.nodeOf = Int32Array.from(gpus.node ?? []);
    this.nodeCount = nodes.name?.length ?? 0;
    this.imported = Uint8Array.from(this.nodeOf, (node) => Number(!nodes.agent[node])); // by row: without an agent
    this.document = { gpus, nodes, pools, models, services };
  }

  id(row) { return this.ids[row]; }
  index(row) { return this.document.gpus.index[row]; }
  node(row) { return this.document.nodes.name[this.nodeOf[row]]; }
  pool(row) { return this.document.pools[this.document.nodes.pool[this.nodeOf[row]]]; }
  rack(row) { return this.document.nodes.rack[this.nodeOf[row]]; }
  hasAgent(row) { return this.imported[row] === 0; }
  model(row) { return this.document.models[this.document.gpus.model[row]]; }
  service(row) { return this.document.services[this.document.gpus.service[row]] ?? null; }
  memoryBytes(row) { return this.document.gpus.memory_bytes[row]; }
  name(row) { return `${this.node(row)} / GPU ${this.index(row)}`; }

  /** Rows as ranges of GPU ids, as the feed takes them: first and last of each in turn. */
  ranges(rows) {
    const ascending = Int32Array.from(rows).sort(), out = [];
    let last = -2;
    for (const row of ascending) {
      if (row !== last + 1) out.push(this.ids[row], this.ids[row]);
      out[out.length - 1] = this.ids[row];
      last = row;
    }
    return out;
  }
}

const STEP = { [P99]: 1 };

/** The rows of `count` of which `holds` is true, in order. */
export function rowsWhere(count, holds) {
  const rows = new Int32Array(count);
  let found = 0;
  for (let row = 0; row < count; row += 1) if (holds(row)) { rows[found] = row; found += 1; }
  return rows.slice(0, found);
}

/** What a page follows at first of a store that is elsewhere. */
export const NONE_FOLLOWED = { number: 0, detail: "gpus", rows: [] };

/** Column numbers as bits. */
export const maskOf = (fields) => [...fields].reduce((mask, field) => mask | (1 << field), 0);

/** One kind of row: a column of bytes a field, and the watch that keeps them live, as `Store.expect` made it. */
export class Rows {
  constructor(count, width) {
    const unheard = (column) => (column === LOOK ? UNREACHABLE : column === STATE || column >= FLAGS ? 0 : MISSING);
    const columns = Array.from({ length: width }, (_, column) => new Uint8Array(count).fill(unheard(column)));
    Object.assign(this, { count, columns, watch: null, known: null }); // known: by row, 1 where bytes are kept current; null: all are
    this.sequence = null; // the second that is shown
  }

  /** Takes in the blocks of a frame; those of columns of a later version are left out. */
  take(blocks) {
    for (const block of blocks) if (this.columns[block.column]) write(block, this.columns[block.column]);
  }

  byte(row, column) { return this.columns[column][row]; }
  has(row, flag) { return (this.columns[FLAGS][row] & flag) !== 0; }

  /** The value in % (or °C); null where missing. */
  value(row, field) {
    const byte = this.columns[field][row];
    return byte === MISSING ? null : byte * (STEP[field] ?? 0.5);
  }

  isKnown(row) { return this.known === null || this.known[row] === 1; }

  /** Whether the value of this row is kept current; where it is not, nothing may be said of it. */
  isWatched(row, field) {
    const { watch } = this;
    if (watch === null || !this.isKnown(row)) return false;
    if ((watch.mask >> field) & 1 && (watch.rows === null || watch.rows[row] === 1)) return true;
    return watch.closer !== null && watch.closer[row] === 1;
  }

  forget() {
    this.columns.forEach((bytes, column) => isValue(column) && bytes.fill(MISSING));
  }

  // ---- some rows of a store that is elsewhere ----

  /** From now on only these are known. */
  know(rows) {
    this.known = new Uint8Array(this.count);
    for (const row of rows) this.known[row] = 1;
  }

  /** All bytes of these rows, row by row. */
  bytesOf(rows) {
    const { columns } = this, out = new Uint8Array(rows.length * columns.length);
    rows.forEach((row, i) => columns.forEach((bytes, column) => { out[i * columns.length + column] = bytes[row]; }));
    return out;
  }

  /** The same, back: these are known from now on. */
  put(rows, all) {
    const { columns, known } = this;
    rows.forEach((row, i) => {
      columns.forEach((bytes, column) => { bytes[row] = all[i * columns.length + column]; });
      known[row] = 1;
    });
  }
}

export class Store {
  constructor() {
    this.use(new Layout({ epoch: 0, gpus: {} }));
  }

  /** Another fleet: nothing is known of it until its snapshot comes; of the store of another thread, until rows are asked for. */
  use(layout, isElsewhere = false) {
    this.layout = layout;
    this.gpus = new Rows(layout.count, WIDTH);
    this.nodes = new Rows(layout.nodeCount, TILE_WIDTH);
    if (isElsewhere) for (const rows of [this.gpus, this.nodes]) rows.know([]);
    this.at = null;
    this.watches = new Map([...(this.watches ?? [])].filter(([, watch]) => watch.rows === null && !watch.closer)); // by number
  }

  /** Another connection numbers its seconds anew. */
  reconnect() {
    this.gpus.sequence = this.nodes.sequence = null;
  }

  /** What a watch of this number keeps current: `fields` of the rows marked in `rows` (null: all), all fields of those marked in `closer` (null: none). */
  expect(number, { fields, rows = null, closer = null }) {
    for (const old of this.watches.keys()) if (old < number - 8) this.watches.delete(old);
    this.watches.set(number, { number, mask: maskOf(fields), rows, closer });
  }

  /**
   * Takes a frame in: "ok"; "old" when a later one was here before; "gap" when one between is missing;
   * "layout" when it is about another fleet than we know.
   */
  apply(frame) {
    if (frame.epoch !== this.layout.epoch) return "layout";
    const rows = this[frame.detail], { sequence } = rows, number = rows.watch?.number ?? -1;
    if (frame.rows !== rows.count) return "layout";
    if (sequence !== null && (frame.sequence < sequence || frame.watch < number || (frame.sequence === sequence && frame.watch === number))) return "old";
    if (frame.kind !== "snapshot" && (sequence === null || sequence < frame.base)) return "gap";
    if (frame.kind === "delta" && frame.watch !== number) return "gap";
    if (frame.watch !== number || frame.kind === "snapshot") this.turn(rows, frame.watch);
    rows.take(frame.blocks);
    rows.sequence = frame.sequence;
    this.at = frame.at;
    return "ok";
  }

  turn(rows, number) {
    rows.watch = this.watchOf(number);
    rows.forget();
  }

  watchOf(number) { return this.watches.get(number) ?? { number, mask: 0, rows: null, closer: null }; }

  // ---- GPUs, as pages ask for them ----

  byte(row, field) { return this.gpus.byte(row, field); }
  has(row, flag) { return this.gpus.has(row, flag); }
  value(row, field) { return this.gpus.value(row, field); }

  /** The state as pages name it: QUARANTINED for suspect hardware, NO_DATA where there is no live sample. */
  state(row) { return stateOf(this.gpus, row, !this.layout.hasAgent(row)); }
}

/** The state of a row of GPUs, or the worst one of a row of nodes; nothing is known of that of an imported GPU. */
export function stateOf(rows, row, isImported = false) {
  const look = rows.byte(row, LOOK);
  if (look === UNSUPPORTED && isImported) return "INIT";
  if (look === STALE || look === UNREACHABLE) return "NO_DATA";
  return rows.has(row, FLAG.HARDWARE) ? "QUARANTINED" : STATES[rows.byte(row, STATE)];
}

/** How many GPUs of a node are silent. */
export const silentOf = (nodes, row) => nodes.byte(row, COUNT.STALE) + nodes.byte(row, COUNT.UNREACHABLE);
