import assert from "node:assert/strict";
import { test } from "node:test";
import { Store } from "../../static/js/store.js";
import { DUTY, FLAG, HEADROOM, IDLE, OK, P99, SM_ACTIVITY, STALE, UNREACHABLE, UNSUPPORTED } from "../../static/js/wire.js";
import { WATCHED, cell, fleet, frame } from "./fleet.js";

const FIRST = { 0: cell(OK, { [HEADROOM]: 50 }), 1: cell(IDLE), 2: cell(STALE) };

const started = () => {
  const store = new Store();
  store.use(fleet());
  store.expect(1, WATCHED);
  assert.equal(store.apply(frame("snapshot", 1, FIRST)), "ok");
  return store;
};

test("a fleet of which nothing is known yet is unreachable, not zero", () => {
  const store = new Store();
  store.use(fleet());
  assert.equal(store.byte(0, 0), UNREACHABLE);
  assert.equal(store.value(0, SM_ACTIVITY), null);
  assert.equal(store.state(0), "NO_DATA");
});

test("a delta changes its GPUs alone", () => {
  const store = started();
  assert.equal(store.apply(frame("delta", 2, { 1: cell(OK, { [HEADROOM]: 9 }) })), "ok");
  assert.equal(store.value(1, HEADROOM), 4.5);
  assert.equal(store.value(0, HEADROOM), 25);
});

test("a delta after a gap is not applied", () => {
  const store = started();
  assert.equal(store.apply(frame("delta", 3, { 1: cell(OK) })), "gap");
  assert.equal(store.byte(1, 0), IDLE);
  assert.equal(store.apply(frame("snapshot", 4, FIRST)), "ok");
  assert.equal(store.apply(frame("delta", 5, {})), "ok");
});

test("a delta over several seconds fits on any of them", () => {
  const store = started();
  assert.equal(store.apply(frame("delta", 9, { 1: cell(OK) }, { base: 0 })), "ok");
});

test("what comes late or twice is left out", () => {
  const store = started(), delta = frame("delta", 2, { 1: cell(OK, { [HEADROOM]: 9 }) });
  store.apply(delta);
  assert.equal(store.apply(delta), "old");
  assert.equal(store.apply(frame("snapshot", 1, FIRST)), "old");
  assert.equal(store.value(1, HEADROOM), 4.5);
});

test("another connection may count from anywhere", () => {
  const store = started();
  store.reconnect();
  assert.equal(store.apply(frame("delta", 2, {})), "gap");
  assert.equal(store.apply(frame("snapshot", 0, FIRST)), "ok");
});

test("a frame about another fleet asks for its layout", () => {
  assert.equal(started().apply(frame("snapshot", 2, FIRST, { epoch: 8 })), "layout");
});

test("of what is not watched nothing is said, and another watch forgets the values", () => {
  const store = started();
  assert.deepEqual([HEADROOM, DUTY].map((field) => store.gpus.isWatched(0, field)), [true, false]);
  store.expect(2, { fields: [DUTY], rows: Uint8Array.of(1, 0, 0), closer: Uint8Array.of(0, 0, 1) });
  assert.equal(store.apply({ ...frame("turn", 1, {}, { base: 1, watch: 2 }), blocks: [] }), "ok");
  assert.equal(store.value(0, HEADROOM), null);
  assert.equal(store.byte(1, 0), IDLE);
  assert.deepEqual([0, 1, 2].map((row) => store.gpus.isWatched(row, DUTY)), [true, false, true]);
  assert.ok(store.gpus.isWatched(2, HEADROOM));
});

test("a delta for a watch whose beginning was lost asks for a snapshot", () => {
  const store = started();
  store.expect(2, WATCHED);
  assert.equal(store.apply(frame("delta", 2, {}, { watch: 2 })), "gap");
});

test("rows are asked for as ranges of ids", () => {
  assert.deepEqual(fleet([["n1", "search", 6]]).ranges([4, 0, 1, 5]), [10, 11, 14, 15]);
  assert.deepEqual(fleet().ranges([]), []);
});

test("a p99 is percent of the SLO, all else half percent", () => {
  const store = started();
  store.apply(frame("delta", 2, { 0: cell(OK, { [P99]: 120, [SM_ACTIVITY]: 120 }) }));
  assert.equal(store.value(0, P99), 120);
  assert.equal(store.value(0, SM_ACTIVITY), 60);
});

test("suspect hardware, silence and imports have states of their own", () => {
  const store = started();
  store.apply(frame("delta", 2, { 0: cell(OK, { 1: 6, 11: FLAG.HARDWARE }) }));
  assert.deepEqual([0, 1, 2].map((row) => store.state(row)), ["QUARANTINED", "HEALTHY", "NO_DATA"]);
  const imported = new Store();
  imported.use(fleet([["n1", "search", 1]], { agent: false }));
  imported.apply(frame("snapshot", 1, { 0: cell(UNSUPPORTED) }, { rows: 1 }));
  assert.equal(imported.state(0), "INIT");
});

test("of a store elsewhere only rows that were brought are known, and no longer than they are wanted", () => {
  const there = started().gpus, store = new Store(), here = () => [0, 1, 2].map((row) => store.gpus.isKnown(row));
  store.use(fleet(), true);
  store.gpus.watch = there.watch;
  assert.deepEqual(here(), [false, false, false]);
  assert.ok(!store.gpus.isWatched(0, HEADROOM));
  store.gpus.put([2, 0], there.bytesOf([2, 0]));
  assert.deepEqual([here(), store.byte(2, 0), store.value(0, HEADROOM)], [[true, false, true], STALE, 25]);
  assert.ok(store.gpus.isWatched(0, HEADROOM));
  store.gpus.know([0]);
  assert.deepEqual(here(), [true, false, false]);
});
