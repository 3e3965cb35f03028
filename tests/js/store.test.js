import assert from "node:assert/strict";
import { test } from "node:test";
import { waitMs } from "../../static/js/socket.js";
import { Store } from "../../static/js/store.js";
import { FLAG, HEADROOM, IDLE, OK, P99, SM_ACTIVITY, STALE, UNREACHABLE, UNSUPPORTED } from "../../static/js/wire.js";
import { cell, fleet, frame } from "./fleet.js";

const started = () => {
  const store = new Store();
  store.use(fleet());
  assert.equal(store.apply(frame("snapshot", 1, { 10: cell(OK, { [HEADROOM]: 50 }), 11: cell(IDLE), 12: cell(STALE) })), "ok");
  return store;
};

test("a fleet of which nothing is known yet is unreachable, not zero", () => {
  const store = new Store();
  store.use(fleet());
  assert.equal(store.byte(0, 0), UNREACHABLE);
  assert.equal(store.value(0, SM_ACTIVITY), null);
  assert.equal(store.state(0), "NO_DATA");
});

test("a delta changes its GPUs alone and marks them", () => {
  const store = started();
  store.takeDirty();
  assert.equal(store.apply(frame("delta", 2, { 11: cell(OK, { [HEADROOM]: 9 }) })), "ok");
  assert.deepEqual([...store.takeDirty()], [1]);
  assert.equal(store.value(1, HEADROOM), 4.5);
  assert.equal(store.value(0, HEADROOM), 25);
});

test("a cell that was sent but did not change is not drawn again", () => {
  const store = started();
  store.takeDirty();
  store.apply(frame("delta", 2, { 11: cell(IDLE) }));
  assert.equal(store.takeDirty().size, 0);
});

test("a delta after a gap is not applied", () => {
  const store = started();
  assert.equal(store.apply(frame("delta", 3, { 11: cell(OK) })), "gap");
  assert.equal(store.byte(1, 0), IDLE);
  assert.equal(store.apply(frame("snapshot", 4, { 11: cell(OK) })), "ok");
  assert.equal(store.apply(frame("delta", 5, {})), "ok");
});

test("the sequence wraps around", () => {
  const store = started();
  store.apply(frame("snapshot", 2 ** 32 - 1, {}));
  assert.equal(store.apply(frame("delta", 0, {})), "ok");
});

test("a frame about another fleet asks for its layout", () => {
  const store = started();
  assert.equal(store.apply(frame("snapshot", 2, { 99: cell(OK) }, 8)), "layout");
});

test("a p99 is percent of the SLO, all else half percent", () => {
  const store = started();
  store.apply(frame("delta", 2, { 10: cell(OK, { [P99]: 120, [SM_ACTIVITY]: 120 }) }));
  assert.equal(store.value(0, P99), 120);
  assert.equal(store.value(0, SM_ACTIVITY), 60);
});

test("suspect hardware, silence and imports have states of their own", () => {
  const store = started();
  store.apply(frame("delta", 2, { 10: cell(OK, { 1: 6, 11: FLAG.HARDWARE }) }));
  assert.deepEqual([0, 1, 2].map((row) => store.state(row)), ["QUARANTINED", "HEALTHY", "NO_DATA"]);
  const imported = new Store();
  imported.use(fleet([["n1", "search", 1]], { agent: false }));
  imported.apply(frame("snapshot", 1, { 10: cell(UNSUPPORTED) }));
  assert.equal(imported.state(0), "INIT");
});

test("tries get rarer, up to a bound, and differ between tabs", () => {
  assert.deepEqual([0, 1, 2, 20].map((attempt) => waitMs(attempt, 1)), [500, 1000, 2000, 10000]);
  assert.equal(waitMs(3, 0), waitMs(3, 1) / 2);
});
