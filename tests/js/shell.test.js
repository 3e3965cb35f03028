import assert from "node:assert/strict";
import test from "node:test";
import { freshness } from "../../static/js/age.js";
import { isCommand } from "../../static/js/keys.js";
import { pick } from "../../static/js/live_values.js";
import { barWidths, gains } from "../../static/js/overview.js";

test("data within five seconds is fresh", () => {
  assert.deepEqual(freshness(0.8, true, 0.2), { tone: "healthy", stale: false, lead: "Live, data ", text: "0.8\u00a0s old" });
});

test("older data is stale even while the socket is open", () => {
  assert.equal(freshness(43, true, 0.1).stale, true);
});

test("a closed socket is no alarm until the data is old", () => {
  assert.equal(freshness(2, false, 1).stale, false);
  assert.equal(freshness(7, false, 6).stale, true);
});

test("before the first message the header waits, then says that nothing arrives", () => {
  assert.equal(freshness(null, false, 1).text, "…");
  assert.equal(freshness(null, false, 6).stale, true);
});

test("a fleet of which no GPU reports is no broken feed", () => {
  assert.deepEqual(freshness(null, true, 60), { tone: "unknown", stale: false, lead: "Live, ", text: "no GPU reports" });
});

test("typing in a field is no command", () => {
  const typing = { target: { matches: () => true } }, walking = { target: { matches: () => false } };
  assert.equal(isCommand(typing), false);
  assert.equal(isCommand(walking), true);
  assert.equal(isCommand({ ...walking, ctrlKey: true }), false);
});

test("a missing value is told from a zero", () => {
  assert.equal(pick({ states: { HEALTHY: 0 } }, "states.HEALTHY"), 0);
  assert.equal(pick({}, "states.HEALTHY"), undefined);
});

test("the state bar keeps a rare state visible and stays full", () => {
  const widths = barWidths({ HEALTHY: 4000, GUARDED: 1, INIT: 0 });
  assert.ok(widths.GUARDED >= 5);
  assert.equal(Math.round(widths.HEALTHY + widths.GUARDED), 1000);
  assert.equal("INIT" in widths, false);
});

test("a gain is that of the figure beside it, and nothing where either is missing", () => {
  const before = { sm_activity: 19.2, p99_percent: null };
  assert.deepEqual(gains({ sm_activity: 39.3, p99_percent: 50 }, before), { sm_gain: "+20.1\u00a0points", p99_gain: "" });
  assert.equal(gains({ sm_activity: null, p99_percent: 50 }, before).sm_gain, "");
});
