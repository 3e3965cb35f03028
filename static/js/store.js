// The live map as typed arrays: one row a GPU of the layout, WIDTH bytes a row, and which rows changed. DOM-free.
import { FLAG, FLAGS, LOOK, MISSING, P99, STALE, STATE, STATES, UNREACHABLE, UNSUPPORTED, WIDTH } from "./wire.js";

/** What the document of /live/layout.json says of each row, as columns. */
export class Layout {
  constructor(document) {
    const { gpus, nodes = {}, pools = [], models = [], services = [] } = document;
    this.epoch = document.epoch;
    this.ids = Uint32Array.from(gpus.id ?? []);
    this.count = this.ids.length;
    this.rowOf = new Map(Array.from(this.ids, (id, row) => [id, row]));
    this.document = { gpus, nodes, pools, models, services };
  }

  id(row) { return this.ids[row]; }
  index(row) { return this.document.gpus.index[row]; }
  node(row) { return this.document.nodes.name[this.document.gpus.node[row]]; }
  pool(row) { return this.document.pools[this.document.nodes.pool[this.document.gpus.node[row]]]; }
  rack(row) { return this.document.nodes.rack[this.document.gpus.node[row]]; }
  hasAgent(row) { return this.document.nodes.agent[this.document.gpus.node[row]]; }
  model(row) { return this.document.models[this.document.gpus.model[row]]; }
  service(row) { return this.document.services[this.document.gpus.service[row]] ?? null; }
  memoryBytes(row) { return this.document.gpus.memory_bytes[row]; }
  name(row) { return `${this.node(row)} / GPU ${this.index(row)}`; }
}

const STEP = { [P99]: 1 };

export class Store {
  constructor() {
    this.use(new Layout({ epoch: 0, gpus: {} }));
  }

  /** Another fleet: nothing is known of it until its snapshot comes. */
  use(layout) {
    this.layout = layout;
    this.cells = new Uint8Array(layout.count * WIDTH).fill(MISSING);
    for (let row = 0; row < layout.count; row += 1) { this.cells[row * WIDTH + LOOK] = UNREACHABLE; this.cells[row * WIDTH + STATE] = 0; this.cells[row * WIDTH + FLAGS] = 0; }
    this.sequence = null;
    this.at = null;
    this.dirty = new Set();
  }

  /** Takes a frame in: "ok"; "gap" when a frame before it is missing; "layout" when it is about another fleet than we know. */
  apply(frame) {
    if (frame.epoch !== this.layout.epoch) return "layout";
    if (frame.kind === "delta" && (this.sequence === null || frame.sequence !== (this.sequence + 1) >>> 0)) return "gap";
    for (let i = 0; i < frame.ids.length; i += 1) this.write(frame, i);
    this.sequence = frame.sequence;
    this.at = frame.at;
    return "ok";
  }

  write({ ids, cells, width }, i) {
    const row = this.layout.rowOf.get(ids[i]);
    if (row === undefined) return;
    const to = row * WIDTH, from = i * width;
    let same = true;
    for (let field = 0; field < WIDTH; field += 1) {
      if (this.cells[to + field] !== cells[from + field]) { this.cells[to + field] = cells[from + field]; same = false; }
    }
    if (!same) this.dirty.add(row);
  }

  /** The rows that changed since the last call. */
  takeDirty() {
    const dirty = this.dirty;
    this.dirty = new Set();
    return dirty;
  }

  byte(row, field) { return this.cells[row * WIDTH + field]; }
  has(row, flag) { return (this.byte(row, FLAGS) & flag) !== 0; }

  /** The value in % (or °C); null where missing. */
  value(row, field) {
    const byte = this.byte(row, field);
    return byte === MISSING ? null : byte * (STEP[field] ?? 0.5);
  }

  /** The state as pages name it: QUARANTINED for suspect hardware, NO_DATA where there is no live sample. */
  state(row) {
    const look = this.byte(row, LOOK);
    if (look === STALE || look === UNREACHABLE) return "NO_DATA";
    if (look === UNSUPPORTED && !this.layout.hasAgent(row)) return "INIT";
    return this.has(row, FLAG.HARDWARE) ? "QUARANTINED" : STATES[this.byte(row, STATE)];
  }
}
