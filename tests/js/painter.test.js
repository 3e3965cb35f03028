import assert from "node:assert/strict";
import { test } from "node:test";
import { Canvas, nextFrame } from "./canvas.js";
import { cell, fleet, rowsOf } from "./fleet.js";
import { FILLS } from "../../static/js/heatmap/colour.js";
import { arrange, group } from "../../static/js/heatmap/layout.js";
import { KIND_AT } from "../../static/js/heatmap/tally.js";
import { FLAG, HEADROOM, IDLE, LOOKS, MISSING, OK, STALE, STATES, UNREACHABLE, UNSUPPORTED, ZERO } from "../../static/js/wire.js";

const { Painter } = await import("../../static/js/heatmap/painter.js"); // after the canvases it draws on
const { STATE_NAMES } = await import("../../static/js/heatmap/sprites.js");

const WHOLE = { zoom: 1, x: 0, y: 0 };
const inks = (background) => {
  const colours = Object.fromEntries(["ink", "ink2", "ink3", "line", "pending", "hollow", "accent", "empty", "emptyInk"].map((name) => [name, `${name} rgb(9 9 9)`]));
  const each = Object.fromEntries([...STATE_NAMES, "NO_DATA"].map((name) => [name, name]));
  return { theme: "light", surface: background, ...colours, tone: each, fill: each };
};
/** Numbers from 0 to 1, the same in each run (mulberry32). */
const random = (seed) => () => {
  seed = (seed + 0x6d2b79f5) | 0;
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
};
const CELLS = [
  cell(OK, { [HEADROOM]: 50 }), cell(OK, { [HEADROOM]: 0 }), cell(OK, { [HEADROOM]: MISSING }), cell(IDLE), cell(STALE, { [HEADROOM]: 50 }), cell(UNREACHABLE),
  cell(UNSUPPORTED), cell(OK, { [HEADROOM]: 50, 1: STATES.indexOf("OVERLIMIT") }), cell(OK, { [HEADROOM]: 50, 11: FLAG.OFFLINE }),
];

/** A painter that shows `rows`, and how it stands. */
function painting(rows, { fill = FILLS.headroom, width = 600, camera = WHOLE, nodes = [["n1", "search", rows.count]] } = {}) {
  const layout = fleet(nodes), groups = group(layout, [...layout.rowOf.values()], "pool"), placed = arrange(groups, rows.count, width, 400);
  const cells = new Canvas(), painter = new Painter(cells);
  const view = { placed, groupOf: new Int32Array(rows.count), imported: null, fill, range: { from: fill.from, to: fill.to }, k: inks("rgb(255 255 255)"), width, height: 400, ratio: 1, labels: 22, font: 12, compact: false };
  painter.show(view, camera, rows);
  nextFrame();
  const pixel = (row, at = cells.context.picture) => at[(painter.top[row] - painter.y + 1) * cells.width + painter.left[row] - painter.x + 1];
  return { painter, cells, pixel, look: () => cells.context.picture };
}

test("each look of a cell is a picture of its own: missing, zero, idle, stale, unreachable and unsupported", () => {
  const { pixel } = painting(rowsOf(...CELLS)), seen = CELLS.map((_, row) => pixel(row));
  assert.equal(seen[2], seen[6], "what is missing is drawn as unsupported");
  seen.splice(2, 1);
  assert.equal(new Set(seen).size, seen.length, `${seen} of ${LOOKS}`);
});

test("a new value is painted in its cell alone, and an old one not again", () => {
  const rows = rowsOf(...CELLS), { painter, cells, pixel, look } = painting(rows), before = look();
  painter.cells(rows);
  nextFrame();
  assert.equal(cells.context.shown, 1, "nothing changed");
  rows.columns[HEADROOM][0] = 90;
  painter.cells(rows);
  nextFrame();
  assert.notEqual(pixel(0), pixel(0, before));
  for (let row = 1; row < CELLS.length; row += 1) assert.equal(pixel(row), pixel(row, before));
});

test("many messages before a frame of the screen are painted as one, the latest", () => {
  const rows = rowsOf(...CELLS), { painter, cells } = painting(rows);
  for (const byte of [10, 20, 30]) {
    rows.columns[HEADROOM][0] = byte;
    painter.cells(rows);
  }
  nextFrame();
  assert.equal(cells.context.shown, 2);
});

test("a brush fades the others, and gives them back", () => {
  const rows = rowsOf(...CELLS), { painter, pixel, look } = painting(rows), before = look();
  painter.keep({ kind: "look", name: "ZERO" });
  nextFrame();
  assert.equal(pixel(1), pixel(1, before));
  assert.notEqual(pixel(0), pixel(0, before));
  painter.keep(null);
  nextFrame();
  assert.deepEqual(look(), before);
});

test("a brush follows new values", () => {
  const rows = rowsOf(...CELLS), { painter, pixel, look } = painting(rows);
  painter.keep({ kind: "range", from: 40, to: 50 });
  nextFrame();
  const before = look();
  rows.columns[HEADROOM][0] = 90;
  painter.cells(rows);
  nextFrame();
  assert.notEqual(pixel(0), pixel(0, before));
});

test("what moves out of the window is not drawn, and is current once it is back", () => {
  const rows = rowsOf(...CELLS), { painter, pixel, look } = painting(rows), before = look();
  painter.look({ zoom: 1, x: 0, y: 300 });
  nextFrame();
  assert.notDeepEqual(look(), before);
  rows.columns[HEADROOM][0] = 90;
  painter.cells(rows);
  painter.look(WHOLE);
  nextFrame();
  assert.notEqual(pixel(0), pixel(0, before));
  assert.equal(pixel(1), pixel(1, before));
});

test("a map that was moved step by step is painted as one that begins there", () => {
  const rows = rowsOf(...Array.from({ length: 96 }, (_, i) => CELLS[i % CELLS.length])), moves = random(5);
  const nodes = Array.from({ length: 12 }, (_, i) => [`node-${i}`, ["search", "ads", "chat"][i % 3], 8]);
  for (const zoom of [1.3, 3]) {
    const { painter, look } = painting(rows, { camera: { zoom, x: 0, y: 0 }, nodes });
    for (let step = 0; step < 24; step += 1) {
      const camera = { zoom, x: moves() * 900, y: moves() * 900 };
      if (step % 2) Object.assign(camera, { x: painter.camera.x + moves() * 40 - 20, y: painter.camera.y + moves() * 3 });
      rows.columns[HEADROOM][step] = 2 + step;
      painter.cells(rows);
      painter.look(camera);
      nextFrame();
      assert.deepEqual(look(), painting(rows, { camera, nodes }).look(), `step ${step} at ${JSON.stringify(camera)}`);
    }
  }
});

test("counts are as new as the values, and written over the group that they changed in", () => {
  const rows = rowsOf(...CELLS), { painter } = painting(rows), { texts } = painter.headers.c;
  assert.deepEqual(painter.news().slice(KIND_AT.STALE * 2, KIND_AT.STALE * 2 + 2), [KIND_AT.STALE, "1"]);
  texts.length = 0;
  painter.cells(rows);
  nextFrame();
  assert.deepEqual(texts, []);
  rows.columns[0][0] = STALE;
  painter.cells(rows);
  assert.deepEqual(painter.news(), [KIND_AT.HEALTHY, "5", KIND_AT.NO_DATA, "3", KIND_AT.STALE, "2"]);
  nextFrame();
  assert.ok(texts.includes("3"), "of no live data");
});

test("a map that nobody sees is not painted until it is shown again", () => {
  const rows = rowsOf(...CELLS), { painter, cells, pixel, look } = painting(rows), before = look();
  painter.cells(rows);
  painter.rest();
  painter.keep({ kind: "look", name: "ZERO" });
  nextFrame();
  assert.equal(cells.context.shown, 1);
  rows.columns[HEADROOM][0] = 90;
  painter.keep(null);
  painter.show(painter, WHOLE, rows);
  nextFrame();
  assert.notEqual(pixel(0), pixel(0, before));
});
