import assert from "node:assert/strict";
import test from "node:test";
import { indexAt, neighbour, readingAt, spanAt } from "../../static/js/replay_reading.js";

const LIMITS = [{ from: 0, to: 10, busy: 40, evict: 60 }, { from: 10, to: 20, busy: 40, evict: 80 }];

test("the last point that is not later counts, and before the first there is none", () => {
  assert.equal(indexAt([1, 2, 5], 0.5), -1);
  assert.equal(indexAt([1, 2, 5], 4.9), 1);
  assert.equal(indexAt([1, 2, 5], 90), 2);
  assert.equal(indexAt([], 3), -1);
});

test("a moment between two spans is in the later one, and the last one holds its own end", () => {
  assert.equal(spanAt(LIMITS, 10).evict, 80);
  assert.equal(spanAt(LIMITS, 20).evict, 80);
  assert.equal(spanAt(LIMITS, -1), undefined);
});

test("a gap has no value, no worst, and is not over its limit", () => {
  const track = { values: [70, null], low: [70, null], high: [70, null], limits: LIMITS };
  assert.deepEqual(readingAt(track, 1, 5), { value: null, worst: null, busy: 40, evict: 60, over: false });
  assert.equal(readingAt(track, -1, 5).value, null);
});

test("the worst of a second is over the limit that held then, even where its last value is not", () => {
  const track = { values: [50], low: [50], high: [70], limits: LIMITS };
  assert.equal(readingAt(track, 0, 5).over, true);
  assert.equal(readingAt(track, 0, 15).over, false);
  const clock = { values: [900], low: [700], high: [900], falling: true, limits: [{ from: 0, to: 10, busy: 1000, evict: 800 }] };
  assert.deepEqual([readingAt(clock, 0, 1).worst, readingAt(clock, 0, 1).over], [700, true]);
});

test("the pin before and after a moment is never the one it stands on", () => {
  const pins = [{ at: 10.25 }, { at: 20 }, { at: 20 }, { at: 31 }];
  assert.equal(neighbour(pins, 10.25, 1), 20);
  assert.equal(neighbour(pins, 20, 1), 31);
  assert.equal(neighbour(pins, 20, -1), 10.25);
  assert.equal(neighbour(pins, 31, 1), undefined);
  assert.equal(neighbour([], 5, -1), undefined);
});
