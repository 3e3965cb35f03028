// Reads the binary frames of the live feed. Twin of console/telemetry/frames.py and latest.py; both are tested on the
// same files in tests/wire/golden. DOM-free.
export const LOOK = 0, STATE = 1, SM_ACTIVITY = 2, GPU_UTIL = 3, MEMORY = 4, HEADROOM = 5, OFFLINE_SHARE = 6, TEMPERATURE = 7,
  POWER = 8, P99 = 9, DUTY = 10, FLAGS = 11;
export const FIELDS = ["LOOK", "STATE", "SM_ACTIVITY", "GPU_UTIL", "MEMORY", "HEADROOM", "OFFLINE_SHARE", "TEMPERATURE", "POWER", "P99", "DUTY", "FLAGS"];
export const WIDTH = FIELDS.length;
export const MISSING = 255;

export const LOOKS = ["OK", "ZERO", "IDLE", "STALE", "UNREACHABLE", "UNSUPPORTED"];
export const OK = 0, ZERO = 1, IDLE = 2, STALE = 3, UNREACHABLE = 4, UNSUPPORTED = 5;
export const STATES = ["INIT", "HEALTHY", "UNHEALTHY", "GUARDED", "OVERLIMIT", "COOLDOWN", "DISABLED"];
export const FLAG = { ONLINE: 1, OFFLINE: 2, ENFORCE: 4, HARDWARE: 8, DEGRADED: 16 };

const HEADER_BYTES = 32, MAGIC = 0x464d, VERSION = 1; // "MF", little endian
const KINDS = { 1: "snapshot", 2: "delta" };

/** A frame as { kind, epoch, sequence, at (s), ids, cells, width }; throws an Error that says what is wrong with the bytes. */
export function decode(buffer) {
  if (buffer.byteLength < HEADER_BYTES) throw new Error(`a frame of ${buffer.byteLength} bytes is shorter than its header`);
  const view = new DataView(buffer);
  if (view.getUint16(0, true) !== MAGIC) throw new Error("not a frame of the live feed");
  if (view.getUint8(2) !== VERSION) throw new Error(`frames of version ${view.getUint8(2)}: reload the page`);
  const kind = KINDS[view.getUint8(3)], count = view.getUint32(12, true), width = view.getUint8(24);
  const length = HEADER_BYTES + count * (4 + width);
  if (!kind || width < WIDTH || buffer.byteLength !== length) throw new Error(`a broken frame: ${buffer.byteLength} bytes, expected ${length}`);
  return {
    kind,
    epoch: view.getUint32(4, true),
    sequence: view.getUint32(8, true),
    at: view.getFloat64(16, true),
    ids: new Uint32Array(buffer, HEADER_BYTES, count),
    cells: new Uint8Array(buffer, HEADER_BYTES + 4 * count),
    width,
  };
}
