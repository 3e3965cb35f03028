import assert from "node:assert/strict";
import { test } from "node:test";
import { answers, latest } from "./feeding.js";
import { WATCHED, cell, documentOf, frame } from "./fleet.js";
import { Feed, waitMs } from "../../static/js/feed.js";
import { Store } from "../../static/js/store.js";
import { HEADROOM, OK } from "../../static/js/wire.js";

const FIRST = { 0: cell(OK, { [HEADROOM]: 50 }), 1: cell(OK), 2: cell(OK) };
const settled = () => new Promise(setImmediate);

/** A feed that is connected, with what it told. */
function connected() {
  const store = new Store(), told = [], feed = new Feed(store, (...news) => told.push(news));
  feed.connect();
  latest().open();
  return { store, feed, told, names: () => told.splice(0).map(([name]) => name) };
}

/** The same of a fleet that it was told of. */
async function fed() {
  const all = connected();
  answers.layout = documentOf();
  all.feed.watch(1, { detail: "gpus" }, WATCHED);
  latest().says(frame("snapshot", 1, FIRST));
  await settled();
  return all;
}

test("tries get rarer, up to a bound, and differ between tabs", () => {
  assert.deepEqual([0, 1, 2, 20].map((attempt) => waitMs(attempt, 1)), [500, 1000, 2000, 10000]);
  assert.equal(waitMs(3, 0), waitMs(3, 1) / 2);
});

test("a frame of an unknown fleet waits for its layout, and is told with it", async () => {
  const { store, names } = await fed();
  assert.deepEqual(names(), ["connection", "layout"]);
  assert.equal(store.value(0, HEADROOM), 25);
});

test("a layout that does not come is asked for again, and nothing is told", async (t) => {
  const { names } = connected();
  t.mock.timers.enable({ apis: ["setTimeout"] });
  answers.layout = null;
  latest().says(frame("snapshot", 1, FIRST));
  await settled();
  answers.layout = documentOf();
  latest().says(frame("snapshot", 2, FIRST));
  await settled();
  assert.deepEqual(names(), ["connection"], "it rests for a while");
  t.mock.timers.tick(2_000);
  latest().says(frame("snapshot", 3, FIRST));
  await settled();
  assert.deepEqual(names(), ["layout"]);
});

test("a second is told as its cells, and its age and summary with what was received", async () => {
  const { told } = await fed();
  told.length = 0;
  latest().says(frame("delta", 2, { 0: cell(OK) }));
  latest().says({ type: "summary", age_s: 0.4 });
  latest().says({ type: "event", op: "gpu" });
  const [cells, [name, ageS, summary, bytes, frames], event] = told;
  assert.deepEqual([cells, name, ageS, summary, frames, event], [["cells", "gpus"], "second", 0.4, { type: "summary", age_s: 0.4 }, 2, ["event", { type: "event", op: "gpu" }]]);
  assert.ok(bytes > 100);
});

test("a gap asks for a snapshot, and tells nothing", async () => {
  const { names } = await fed();
  names();
  latest().says(frame("delta", 9, { 0: cell(OK) }));
  assert.deepEqual([names(), latest().sent.at(-1)], [[], { op: "snapshot" }]);
});

test("a connection that is lost is made again, and told what is drawn", async (t) => {
  const { names } = await fed(), before = latest();
  names();
  t.mock.timers.enable({ apis: ["setTimeout"] });
  before.close(1006);
  assert.deepEqual(names(), ["connection"]);
  t.mock.timers.tick(1_000);
  assert.notEqual(latest(), before);
  latest().open();
  assert.deepEqual([names(), latest().sent], [["connection"], [{ op: "watch", number: 1, detail: "gpus" }]]);
});

test("who has to sign in is not connected again", (t) => {
  const { names } = connected(), before = latest();
  t.mock.timers.enable({ apis: ["setTimeout"] });
  before.close(4401);
  t.mock.timers.tick(20_000);
  assert.deepEqual([names(), latest()], [["connection", "connection", "signedOut"], before]);
});

test("another connection takes the place of the one before, which is not made again", () => {
  const { feed, names } = connected(), before = latest();
  feed.wake();
  assert.equal(latest(), before, "it stands");
  feed.connect();
  assert.notEqual(latest(), before);
  assert.deepEqual(names(), ["connection", "connection"], "it stood, and no longer does");
});
