import assert from "node:assert/strict";
import test from "node:test";
import { axisWord, exactTime, extent, freeRow, keepWindow, lonePoints, timeTicks, timeWord, valueTicks, withGaps } from "../../static/js/charts/ticks.js";

const NOON = Date.UTC(2026, 8, 1, 12) / 1000;

test("time ticks fall on whole moments and never exceed what fits", () => {
  const ticks = timeTicks(NOON + 7, NOON + 907, 5);
  assert.ok(ticks.length <= 5 && ticks.length >= 2);
  assert.ok(ticks.every((t) => t % 300 === 0));
});

test("a time tick says only what the window needs", () => {
  assert.equal(timeWord(NOON + 5, 120, 30), "12:00:05");
  assert.equal(timeWord(NOON, 900, 60), "12:00");
  assert.equal(timeWord(NOON, 14 * 86400), "Tue 1");
  assert.equal(timeWord(NOON, 90 * 86400), "1 Sep");
  assert.equal(exactTime(NOON), "Tue 1 Sep 12:00:00 UTC");
});

test("value ticks are round and reach past the highest value", () => {
  assert.deepEqual(valueTicks(0, 75), [0, 20, 40, 60, 80]);
  assert.deepEqual(valueTicks(40, 110), [40, 60, 80, 100, 120]);
  assert.ok(valueTicks(0, 225).at(-1) >= 225);
  assert.deepEqual(valueTicks(0, 108), [0, 40, 80, 120]);
  assert.deepEqual(valueTicks(0, 0.3), [0, 0.1, 0.2, 0.3]);
});

test("axis words stay short", () => {
  assert.equal(axisWord(24000), "24k");
  assert.equal(axisWord(80, "%"), "80\u00a0%");
});

test("the extent of nothing is null, not zero", () => {
  assert.equal(extent([[null, null], []]), null);
  assert.deepEqual(extent([[null, 3], [-1]]), [-1, 3]);
});

test("missing time breaks the line", () => {
  assert.deepEqual(withGaps([0, 1, 9], [[5, 6, 7]], 4), [[0, 1, 5, 9], [5, 6, null, 7]]);
  assert.deepEqual(withGaps([0, 1], [[5, 6]], null), [[0, 1], [5, 6]]);
});

test("a window forgets what is older", () => {
  const x = [0, 5, 10], values = [1, 2, 3];
  keepWindow(x, [values], 6);
  assert.deepEqual([x, values], [[5, 10], [2, 3]]);
});

test("words of marks that stand close go to another row, or are left out", () => {
  const rows = [[], []];
  assert.deepEqual([[10, 60], [50, 90], [55, 95], [70, 120]].map((span) => freeRow(rows, ...span)), [0, 1, -1, 0]);
});

test("a value between gaps is a point of its own, one of a line is not", () => {
  assert.deepEqual(lonePoints([null, 5, null, 1, 2, null, 0]), [1, 6]);
  assert.deepEqual(lonePoints([7]), [0]);
  assert.equal(lonePoints([1, 2, 3]), null);
  assert.equal(lonePoints([]), null);
});
