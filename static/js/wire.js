// Reads the binary frames of the live feed. Twin of console/telemetry/frames.py, latest.py and tiles.py; all are tested on
// the same files in tests/wire/golden. DOM-free.
export const LOOK = 0, STATE = 1, SM_ACTIVITY = 2, GPU_UTIL = 3, MEMORY = 4, HEADROOM = 5, OFFLINE_SHARE = 6, TEMPERATURE = 7,
  POWER = 8, P99 = 9, DUTY = 10, FLAGS = 11;
export const FIELDS = ["LOOK", "STATE", "SM_ACTIVITY", "GPU_UTIL", "MEMORY", "HEADROOM", "OFFLINE_SHARE", "TEMPERATURE", "POWER", "P99", "DUTY", "FLAGS"];
export const WIDTH = FIELDS.length;
export const MISSING = 255;

/** Columns of a node's tile after the fields: how many of its GPUs are so. */
export const COUNT = { INIT: 12, HEALTHY: 13, UNHEALTHY: 14, GUARDED: 15, OVERLIMIT: 16, COOLDOWN: 17, DISABLED: 18, QUARANTINED: 19, IDLE: 20, STALE: 21, UNREACHABLE: 22, UNSUPPORTED: 23, GUESTS: 24 };
export const TILE_WIDTH = WIDTH + Object.keys(COUNT).length;

export const LOOKS = ["OK", "ZERO", "IDLE", "STALE", "UNREACHABLE", "UNSUPPORTED"];
export const OK = 0, ZERO = 1, IDLE = 2, STALE = 3, UNREACHABLE = 4, UNSUPPORTED = 5;
export const STATES = ["INIT", "HEALTHY", "UNHEALTHY", "GUARDED", "OVERLIMIT", "COOLDOWN", "DISABLED"];
export const FLAG = { ONLINE: 1, OFFLINE: 2, ENFORCE: 4, HARDWARE: 8, DEGRADED: 16 };

/** Whether a column is a value, which is sent only where it is watched. */
export const isValue = (column) => column >= SM_ACTIVITY && column <= DUTY;

const HEADER_BYTES = 40, BLOCK_BYTES = 12, MAGIC = 0x464d, VERSION = 2; // "MF", little endian
const KINDS = { 1: "snapshot", 2: "delta", 3: "turn" }, DETAILS = { 1: "gpus", 2: "nodes" };
const ALL = 0, BITMAP = 1, GAPS = 2;

/** A frame as { kind, epoch, sequence, base, at (s), watch, rows, detail, blocks }; throws an Error that says what is wrong with the bytes. */
export function decode(buffer) {
  if (buffer.byteLength < HEADER_BYTES) throw new Error(`a frame of ${buffer.byteLength} bytes is shorter than its header`);
  const view = new DataView(buffer);
  if (view.getUint16(0, true) !== MAGIC) throw new Error("not a frame of the live feed");
  if (view.getUint8(2) !== VERSION) throw new Error(`frames of version ${view.getUint8(2)}: reload the page`);
  const rows = view.getUint32(28, true), kind = KINDS[view.getUint8(3)], detail = DETAILS[view.getUint8(32)];
  if (!kind || !detail) throw new Error("a broken frame: unknown kind or detail");
  return {
    kind, detail, rows,
    epoch: view.getUint32(4, true), sequence: view.getUint32(8, true), base: view.getUint32(12, true), at: view.getFloat64(16, true), watch: view.getUint32(24, true),
    blocks: readBlocks(buffer, view, view.getUint8(33), rows),
  };
}

function readBlocks(buffer, view, count, rows) {
  const blocks = [];
  let at = HEADER_BYTES;
  for (let i = 0; i < count; i += 1) {
    if (at + BLOCK_BYTES > buffer.byteLength) throw broken(buffer, at + BLOCK_BYTES);
    const values = view.getUint32(at + 4, true), size = view.getUint32(at + 8, true), from = at + BLOCK_BYTES, end = from + size + values;
    if (end > buffer.byteLength || values > rows) throw broken(buffer, end);
    blocks.push({ column: view.getUint8(at), told: view.getUint8(at + 1), named: new Uint8Array(buffer, from, size), values: new Uint8Array(buffer, from + size, values) });
    at = end;
  }
  if (at !== buffer.byteLength) throw broken(buffer, at);
  return blocks;
}

const broken = (buffer, expected) => new Error(`a broken frame: ${buffer.byteLength} bytes, expected ${expected}`);

/** Writes the values of a block into their rows of `column`. */
export function write({ told, named, values }, column) {
  if (told === ALL) for (let row = 0; row < values.length; row += 1) column[row] = values[row];
  else if (told === BITMAP) writeByBitmap(named, values, column);
  else if (told === GAPS) writeByGaps(named, values, column);
  else throw new Error("a broken frame: rows told in an unknown way");
}

function writeByBitmap(named, values, column) {
  for (let byte = 0, i = 0; byte < named.length; byte += 1) {
    for (let bits = named[byte]; bits; bits &= bits - 1) {
      column[byte * 8 + 31 - Math.clz32(bits & -bits)] = values[i];
      i += 1;
    }
  }
}

function writeByGaps(named, values, column) {
  let row = -1, at = 0;
  for (let i = 0; i < values.length; i += 1) {
    let gap = 0, shift = 0, byte;
    do { byte = named[at]; at += 1; gap |= (byte & 0x7f) << shift; shift += 7; } while (byte & 0x80);
    row += gap + 1;
    column[row] = values[i];
  }
}
