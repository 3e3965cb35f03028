import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { FIELDS, FLAG, LOOKS, decode } from "../../static/js/wire.js";

const golden = new URL("../wire/golden/", import.meta.url);
const described = JSON.parse(readFileSync(new URL("frames.json", golden)));
const bytes = (name) => new Uint8Array(readFileSync(new URL(`${name}.bin`, golden))).buffer;

test("fields, looks and flags have the server's names and places", () => {
  assert.deepEqual(FIELDS, described.fields);
  assert.deepEqual(LOOKS, described.looks);
  assert.deepEqual(FLAG, described.flags);
});

for (const [name, expected] of Object.entries(described.frames)) {
  test(`the golden frame ${name} reads as the server described it`, () => {
    const { kind, epoch, sequence, at, ids, cells, width } = decode(bytes(name));
    const read = Object.fromEntries(Array.from(ids, (id, i) => [id, Array.from(cells.slice(i * width, (i + 1) * width))]));
    assert.deepEqual({ kind, epoch, sequence, at, cells: read }, expected);
  });
}

test("a frame that is cut short is refused, not half read", () => {
  const whole = bytes("snapshot");
  for (const length of [0, 31, whole.byteLength - 1]) assert.throws(() => decode(whole.slice(0, length)), /frame/);
});

test("a frame of another version asks for a reload", () => {
  const other = new Uint8Array(bytes("snapshot"));
  other[2] = 9;
  assert.throws(() => decode(other.buffer), /reload/);
});

test("a frame may hold more bytes a cell than this reader knows", () => {
  const wide = new Uint8Array(32 + 4 + 14), view = new DataView(wide.buffer);
  wide.set(new Uint8Array(bytes("empty_fleet")));
  view.setUint32(12, 1, true);
  wide[24] = 14;
  wide.set(Array.from({ length: 14 }, (_, i) => i), 36);
  const frame = decode(wide.buffer);
  assert.equal(frame.width, 14);
  assert.deepEqual(Array.from(frame.cells.slice(0, 12)), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
});
