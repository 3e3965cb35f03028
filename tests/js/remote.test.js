// The worker and the page's end of it, with real messages between them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Canvas, nextFrame } from "./canvas.js";
import { answers, latest } from "./feeding.js";
import { WATCHED, cell, documentOf, fleet, frame } from "./fleet.js";
import { Store } from "../../static/js/store.js";
import { DUTY, HEADROOM, LOOK, OK, STALE, UNREACHABLE } from "../../static/js/wire.js";

const posted = { toWorker: null, toPage: null, messages: 0 };
const ofWorker = { addEventListener: (_, hear) => { posted.toWorker = hear; }, postMessage: (news) => { posted.messages += 1; posted.toPage?.({ data: structuredClone(news) }); }, fonts: { add() {}, load: async () => [] } };
const kept = new Map();
Object.assign(globalThis, ofWorker, { sessionStorage: { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, String(value)) } });
await import("../../static/js/heatmap/worker.js");
const { Remote, remoteOf } = await import("../../static/js/remote.js");
const worker = { postMessage: (message) => posted.toWorker({ data: message }), addEventListener: (_, hear) => { posted.toPage = hear; } };

const settled = () => new Promise(setImmediate);
const FIRST = { 0: cell(OK, { [HEADROOM]: 50 }), 1: cell(STALE), 2: cell(OK, { [HEADROOM]: 9 }) };
let epoch = 6;

/** A page that was told of a fleet of three GPUs. */
async function page() {
  const store = new Store(), told = [], remote = new Remote(worker, store, (...news) => told.push(news));
  answers.layout = documentOf(undefined, { epoch: epoch += 1 });
  remote.connect();
  latest().open();
  remote.watch(1, { detail: "gpus" }, WATCHED);
  latest().says(frame("snapshot", 1, FIRST, { epoch }));
  await settled();
  const second = (sequence, cells, summary = {}) => {
    posted.messages = 0;
    latest().says(frame("delta", sequence, cells, { epoch }));
    latest().says({ type: "summary", age_s: 0.5, ...summary });
    nextFrame();
    return told.splice(0).map(([name]) => name);
  };
  return { store, told, remote, second };
}

test("the page learns of the fleet, and of no row until it asks", async () => {
  const { store, told } = await page();
  assert.deepEqual([told.map(([name]) => name), store.layout.count], [["connection", "layout"], 3]);
  assert.deepEqual([0, 1, 2].map((row) => store.gpus.isKnown(row)), [false, false, false]);
});

test("one message a second, with the rows that are followed and their watch", async () => {
  const { store, told, remote, second } = await page();
  remote.follow("gpus", [2]);
  assert.deepEqual([told.at(-1), store.value(2, HEADROOM), store.gpus.isWatched(2, HEADROOM), store.gpus.isWatched(2, DUTY)], [["cells", "gpus"], 4.5, true, false]);
  told.length = 0;
  assert.deepEqual(second(2, { 0: cell(OK, { [HEADROOM]: 90 }), 2: cell(OK, { [HEADROOM]: 20 }) }), ["cells", "second"]);
  assert.deepEqual([posted.messages, store.value(2, HEADROOM), store.gpus.isKnown(0)], [1, 10, false]);
});

test("a tab that nobody sees hears of the second a moment later", async (t) => {
  const { told } = await page();
  told.length = 0;
  t.mock.timers.enable({ apis: ["setTimeout"] });
  latest().says(frame("delta", 2, { 0: cell(OK) }, { epoch }));
  latest().says({ type: "summary", age_s: 0.5 });
  assert.equal(told.length, 0);
  t.mock.timers.tick(100);
  assert.deepEqual(told.splice(0).map(([name]) => name), ["cells", "second"]);
  nextFrame();
  assert.equal(told.length, 0, "told once");
});

test("a row that is no longer followed is no longer known, one that still is stays so", async () => {
  const { store, remote } = await page();
  remote.follow("gpus", [1, 2]);
  const { toPage } = posted;
  posted.toPage = () => {}; // the answer is on its way
  remote.follow("gpus", [2, 0]);
  assert.deepEqual([0, 1, 2].map((row) => store.gpus.isKnown(row)), [false, false, true]);
  remote.follow("nodes", [0]);
  assert.ok(!store.gpus.isKnown(2) && !store.nodes.isKnown(0));
  posted.toPage = toPage;
});

test("bytes of rows that were followed before are not taken for those that are now", async () => {
  const { store, remote } = await page(), late = [];
  const { toPage } = posted;
  posted.toPage = (event) => late.push(event);
  remote.follow("gpus", [0]);
  remote.follow("gpus", [2]);
  toPage(late[0]);
  assert.ok(!store.gpus.isKnown(0) && !store.gpus.isKnown(2));
  toPage(late[1]);
  assert.deepEqual([store.gpus.isKnown(2), store.value(2, HEADROOM)], [true, 4.5]);
  posted.toPage = toPage;
});

test("columns are brought whole, as they are at that moment", async () => {
  const { store, remote, second } = await page();
  assert.equal(store.byte(0, LOOK), UNREACHABLE);
  second(2, { 0: cell(OK, { [HEADROOM]: 90 }) });
  await remote.read([LOOK, HEADROOM]);
  assert.deepEqual([...store.gpus.columns[LOOK], ...store.gpus.columns[HEADROOM].slice(0, 1)], [OK, STALE, OK, 90]);
});

test("a question about another fleet is never answered, nor are the rows of that fleet known", async () => {
  const { store, remote } = await page();
  let isAnswered = false;
  store.use(fleet(undefined, { epoch: 99 }), true);
  remote.read([LOOK]).then(() => { isAnswered = true; });
  remote.follow("gpus", [0]);
  await settled();
  assert.ok(!isAnswered && !store.gpus.isKnown(0));
});

test("what is painted follows the feed, and its counts come with the second", async () => {
  const { remote, second } = await page(), canvas = new Canvas(), counted = [], { FILLS } = await import("../../static/js/heatmap/colour.js");
  const { arrange, group } = await import("../../static/js/heatmap/layout.js"), { KINDS, KIND_AT } = await import("../../static/js/heatmap/tally.js"), { STATE_NAMES } = await import("../../static/js/heatmap/sprites.js");
  const placed = arrange(group(fleet(), [0, 1, 2], "pool"), 3, 400, 300), colours = Object.fromEntries([...STATE_NAMES, "NO_DATA"].map((name) => [name, name]));
  const k = { theme: "light", surface: "rgb(255 255 255)", ink: "ink", ink2: "ink2", ink3: "ink3", line: "line", pending: "pending", hollow: "hollow", accent: "accent", empty: "empty", emptyInk: "emptyInk", tone: colours, fill: colours };
  const view = { placed, groupOf: new Int32Array(3), imported: null, fill: FILLS.headroom, range: { from: 0, to: 100 }, k, width: 400, height: 300, ratio: 1, labels: 22, font: 12, compact: false };
  const news = () => counted.splice(0).map((told) => [told[told.indexOf(KIND_AT.STALE) + 1], told.length / 2]);
  remote.counts.set(5, (told) => counted.push(told));
  remote.worker.postMessage(["start", 5, canvas, [], true]);
  remote.worker.postMessage(["show", 5, epoch, view, { zoom: 1, x: 0, y: 0 }, "gpus"]);
  await settled();
  nextFrame();
  assert.deepEqual([news(), canvas.context.shown], [[["1", KINDS.length]], 1]);
  second(2, { 0: cell(STALE) });
  assert.deepEqual([news(), canvas.context.shown, posted.messages], [[["2", 3]], 2, 1], "stale, silent and healthy ones");
  second(3, { 1: cell(STALE) });
  assert.deepEqual([counted, posted.messages], [[], 1], "as before");
  remote.worker.postMessage(["rest", 5]);
  await settled();
  second(4, { 0: cell(OK) });
  assert.deepEqual([counted, canvas.context.shown], [[], 2]);
});

test("of a summary comes what the page heeds, and when that has changed", async () => {
  const { told, remote, second } = await page();
  const say = (running) => {
    told.length = 0;
    latest().says({ type: "summary", age_s: running / 10, running, queued: told.length });
    nextFrame();
    return told.map(([, ageS, summary]) => [ageS, summary]);
  };
  assert.deepEqual(say(5), [[0.5, null]], "nobody asked");
  remote.heed(["running"]);
  assert.deepEqual([say(5), say(5), say(6)], [[[0.5, { running: 5 }]], [[0.5, null]], [[0.6, { running: 6 }]]]);
  remote.heed(["running"]);
  assert.deepEqual(say(6), [[0.6, { running: 6 }]], "asked anew, it comes anew");
  second(2, { 0: cell(OK) });
  assert.deepEqual(second(3, { 0: cell(OK) }), ["second"], "and no cells to a page that follows none");
});

test("a worker that does not answer is told as lost, and the next page of this tab is without one", async (t) => {
  const { remote, told } = await page();
  t.mock.timers.enable({ apis: ["setTimeout"] });
  remote.connect();
  t.mock.timers.tick(20_000);
  assert.ok(!told.some(([name]) => name === "lost"), "it answers");
  remote.worker = { postMessage() {} };
  remote.connect();
  t.mock.timers.tick(20_000);
  assert.equal(told.at(-1)[0], "lost");
  Object.assign(globalThis, { Worker: class { constructor() { assert.fail("tried again"); } }, HTMLCanvasElement: class { transferControlToOffscreen() {} } });
  assert.equal(await remoteOf(new Store(), () => {}), null);
});
