// What the inbox and the policy form decide, without a browser.
import assert from "node:assert/strict";
import test from "node:test";
import { neighbour } from "../../static/js/evictions.js";
import { beyond, bins, clamp } from "../../static/js/policy.js";

const links = (open) => ["a", "b", "c"].map((name) => ({ name, hasAttribute: () => name === open }));

test("J and K go to the neighbour and stop at the ends", () => {
  assert.equal(neighbour(links("a"), 1).name, "b");
  assert.equal(neighbour(links("b"), -1).name, "a");
  assert.equal(neighbour(links("c"), 1), null);
  assert.equal(neighbour(links("a"), -1), null);
});

test("with nothing open, J opens the first", () => {
  assert.equal(neighbour(links("none"), 1).name, "a");
  assert.equal(neighbour([], 1), null);
});

test("GPUs beyond a limit are counted on its bad side", () => {
  assert.equal(beyond([10, 20, 30], 20, false), 1);
  assert.equal(beyond([10, 20, 30], 20, true), 1);
  assert.equal(beyond([], 20, false), 0);
});

test("every value falls into one bin, those outside into the end bins", () => {
  const filled = bins([-5, 0, 49, 50, 100, 180], 0, 100, 10);
  assert.equal(filled.reduce((sum, count) => sum + count, 0), 6);
  assert.equal(filled[0], 2);
  assert.equal(filled[5], 1);
  assert.equal(filled[9], 2);
});

test("a knob cannot pass its neighbour or leave the axis", () => {
  const limits = { low: 0, high: 100, lower: 80, upper: 90, reversed: false };
  assert.equal(clamp(95, "lower", limits), 89);
  assert.equal(clamp(-3, "lower", limits), 0);
  assert.equal(clamp(70, "upper", limits), 81);
  assert.equal(clamp(140, "upper", limits), 100);
});

test("where low is bad the knobs change sides", () => {
  const limits = { low: 0, high: 100, lower: 80, upper: 60, reversed: true };
  assert.equal(clamp(50, "lower", limits), 61);
  assert.equal(clamp(95, "upper", limits), 79);
  assert.equal(clamp(120, "lower", limits), 100);
});
