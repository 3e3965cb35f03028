import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { COUNT, FIELDS, FLAG, LOOKS, TILE_WIDTH, decode, write } from "../../static/js/wire.js";

const golden = new URL("../wire/golden/", import.meta.url);
const described = JSON.parse(readFileSync(new URL("frames.json", golden)));
const bytes = (name) => new Uint8Array(readFileSync(new URL(`${name}.bin`, golden))).buffer;

function columns(blocks) {
  return Object.fromEntries(blocks.map((block) => {
    const values = {};
    write(block, values);
    return [block.column, values];
  }));
}

test("fields, counts, looks and flags have the server's names and places", () => {
  assert.deepEqual(FIELDS, described.fields);
  assert.deepEqual(COUNT, described.counts);
  assert.deepEqual(LOOKS, described.looks);
  assert.deepEqual(FLAG, described.flags);
  assert.equal(TILE_WIDTH, Math.max(...Object.values(COUNT)) + 1);
});

for (const [name, expected] of Object.entries(described.frames)) {
  test(`the golden frame ${name} reads as the server described it`, () => {
    const { blocks, ...head } = decode(bytes(name));
    assert.deepEqual({ ...head, columns: columns(blocks) }, expected);
  });
}

test("a frame that is cut short is refused, not half read", () => {
  const whole = bytes("snapshot");
  for (let length = 0; length < whole.byteLength; length += 1) assert.throws(() => decode(whole.slice(0, length)), /frame/);
});

test("a frame with something after its end is refused", () => {
  const longer = new Uint8Array(bytes("delta").byteLength + 1);
  longer.set(new Uint8Array(bytes("delta")));
  assert.throws(() => decode(longer.buffer), /frame/);
});

test("a frame of another version asks for a reload", () => {
  const other = new Uint8Array(bytes("snapshot"));
  other[2] = 9;
  assert.throws(() => decode(other.buffer), /reload/);
});
