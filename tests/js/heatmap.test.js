import assert from "node:assert/strict";
import { test } from "node:test";
import { FILLS, PENDING, lookOf, luminance, palette, rampAt } from "../../static/js/heatmap/colour.js";
import { arrange, find, group } from "../../static/js/heatmap/layout.js";
import { besides } from "../../static/js/heatmap/card.js";
import { detailOf } from "../../static/js/heatmap/mini.js";
import { Camera } from "../../static/js/heatmap/camera.js";
import { brushOf, brushText, holds } from "../../static/js/heatmap/brush.js";
import { KIND_AT, NodeTally, Tally } from "../../static/js/heatmap/tally.js";
import { Picker } from "../../static/js/heatmap/pick.js";
import { COUNT, FLAG, HEADROOM, IDLE, LOOKS, MISSING, OK, SM_ACTIVITY, STALE, TILE_WIDTH, UNREACHABLE, UNSUPPORTED, ZERO } from "../../static/js/wire.js";
import { Rows } from "../../static/js/store.js";
import { cell, fleet, rowsOf } from "./fleet.js";

const look = (bytes, fill) => LOOKS[lookOf(rowsOf(bytes), 0, FILLS[fill])];
const nodes = (count, pool = "a", gpus = 8) => Array.from({ length: count }, (_, i) => [`${pool}-${i}`, pool, gpus]);
const placed = (layout, by, width, height, options) => {
  const rows = [...Array(layout.count).keys()];
  return arrange(group(layout, rows, by, () => "HEALTHY"), layout.count, width, height, options);
};

// ---- how near the small map looks ----

test("a small map shows every GPU while it is legible and nodes of a larger fleet", () => {
  assert.equal(detailOf(fleet(nodes(16)), 920, 298), "gpus");
  assert.equal(detailOf(fleet(nodes(16)), 360, 220), "gpus");
  assert.equal(detailOf(fleet(nodes(625)), 920, 298), "nodes");
  assert.equal(detailOf(fleet([]), 920, 298), "gpus");
});

// ---- looks ----

test("a missing value is drawn unsupported and never as zero", () => {
  assert.equal(look(cell(OK, { [HEADROOM]: MISSING }), "headroom"), "UNSUPPORTED");
  assert.equal(look(cell(OK, { [HEADROOM]: 0 }), "headroom"), "ZERO");
  assert.equal(look(cell(OK, { [HEADROOM]: 1 }), "headroom"), "OK");
});

test("a zero of one signal is no zero of another", () => {
  const bytes = cell(ZERO, { [SM_ACTIVITY]: 0, [HEADROOM]: 180 });
  assert.equal(look(bytes, "sm_activity"), "ZERO");
  assert.equal(look(bytes, "headroom"), "OK");
});

test("idle, stale, unreachable and unsupported stay what they are whatever is shown", () => {
  for (const [code, name] of [[IDLE, "IDLE"], [STALE, "STALE"], [UNREACHABLE, "UNREACHABLE"], [UNSUPPORTED, "UNSUPPORTED"]]) {
    for (const fill of ["headroom", "memory"]) assert.equal(look(cell(code, { [HEADROOM]: 0 }), fill), name);
  }
});

test("by state there is neither zero nor idle: every state is a colour", () => {
  assert.equal(look(cell(IDLE), "state"), "OK");
  assert.equal(look(cell(UNREACHABLE), "state"), "UNREACHABLE");
});

test("of a value that is not watched nothing is said", () => {
  const rows = rowsOf(cell(OK, { [HEADROOM]: 0 }));
  rows.watch = { number: 1, mask: 0, rows: null, closer: null };
  assert.equal(lookOf(rows, 0, FILLS.headroom), PENDING);
  assert.equal(lookOf(rows, 0, FILLS.state), OK);
});

// ---- colours ----

for (const theme of ["light", "dark"]) for (const ramp of ["danger", "amount"]) {
  test(`the ${ramp} ramp in ${theme} gets steadily ${theme === "light" ? "lighter" : "darker"} away from its loud end`, () => {
    const steps = Array.from({ length: 101 }, (_, i) => luminance(rampAt(ramp, theme, i / 100)));
    for (let i = 1; i < steps.length; i += 1) assert.ok(theme === "light" ? steps[i] >= steps[i - 1] - 1e-3 : steps[i] <= steps[i - 1] + 1e-3, `at ${i}`);
  });
}

test("little headroom, much memory and much heat are the loud end", () => {
  const loudest = (fill, byte) => palette(FILLS[fill], "light")[byte].ground;
  assert.equal(loudest("headroom", 0), loudest("memory", 200));
  assert.equal(loudest("temperature", 200), loudest("memory", 200));
});

test("a number on a cell is legible on its ground", () => {
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), ink = { "#ffffff": 1, "#141a21": luminance([20, 26, 33]) };
  for (const theme of ["light", "dark"]) for (const fill of Object.values(FILLS).filter((one) => one.ramp)) {
    for (const one of palette(fill, theme)) assert.ok(ratio(luminance(one.ground.match(/\d+/g).map(Number)), ink[one.ink]) >= 4, `${fill.word} ${theme} ${one.ground}`);
  }
});

test("a narrower range spends the whole ramp on it", () => {
  const fill = FILLS.sm_activity, narrow = palette(fill, "light", { from: 40, to: 60 });
  assert.equal(narrow[80].ground, palette(fill, "light")[0].ground);
  assert.equal(narrow[120].ground, palette(fill, "light")[200].ground);
});

// ---- groups and places ----

test("groups are nodes' tiles, the largest group first, GPUs by index", () => {
  const layout = fleet([["n10", "a", 2], ["n9", "a", 2], ["n1", "b", 1]]), [a, b] = group(layout, [4, 3, 2, 1, 0], "pool");
  assert.deepEqual([a.name, b.name], ["a", "b"]);
  assert.deepEqual(a.tiles.map((tile) => tile.name), ["n9", "n10"]);
  assert.deepEqual(a.tiles[1].rows, [0, 1]);
});

test("a GPU without a service has a group that says so", () => {
  assert.deepEqual(group(fleet(), [0, 1, 2], "service").map((one) => one.name).sort(), ["no online service", "rank"]);
});

test("by state, rows go where the store says", () => {
  const states = ["HEALTHY", "GUARDED", "HEALTHY"];
  assert.deepEqual(group(fleet(), [0, 1, 2], "state", (row) => states[row]).map(({ name, rows }) => [name, rows.length]), [["GUARDED", 1], ["HEALTHY", 2]]);
});

const SIZES = [[fleet(nodes(16)), 1392, 700], [fleet([...nodes(40, "a"), ...nodes(7, "b"), ...nodes(1, "c", 3)]), 1392, 700], [fleet(nodes(16)), 358, 500], [fleet(nodes(600)), 1392, 700]];
for (const [layout, width, height] of SIZES) {
  test(`no two of ${layout.count} cells overlap in ${width} × ${height}, and none leaves the width`, () => {
    const at = placed(layout, "pool", width, height), seen = new Set();
    for (let row = 0; row < layout.count; row += 1) {
      assert.ok(at.x[row] >= 0 && at.x[row] + at.size <= width, `row ${row} at ${at.x[row]}`);
      assert.ok(at.y[row] >= 0 && at.y[row] + at.sizeY <= at.height);
      seen.add(`${at.x[row]} ${at.y[row]}`);
    }
    assert.equal(seen.size, layout.count);
    assert.ok(at.size < at.pitch && at.sizeY < at.pitchY);
  });
}

test("a small fleet has large cells with the names of its nodes, a large one has neither", () => {
  const small = placed(fleet(nodes(16)), "pool", 1392, 700), large = placed(fleet(nodes(600)), "pool", 1392, 700);
  assert.ok(small.size >= 30 && small.tiles.names.length === 16);
  assert.ok(large.size < 20 && large.nameRoom < 12);
});

test("what is filtered out has no place", () => {
  const layout = fleet([["n1", "a", 2]]), at = arrange(group(layout, [1], "pool"), layout.count, 400, 400);
  assert.ok(Number.isNaN(at.x[0]) && at.x[1] >= 0);
});

test("an empty fleet is laid out without harm", () => {
  assert.equal(arrange([], 0, 400, 400).groups.length, 0);
});

test("a filter's words may stand in any order", () => {
  const layout = fleet([["node-07", "search-eu", 2]]), found = (query) => find(layout, query, (row) => ["Busy", "Healthy"][row]);
  assert.deepEqual([found("busy search"), found("NODE-07 healthy"), found(" "), found("busy ads")], [[0], [1], [0, 1], []]);
});

// ---- picking ----

test("every cell is found at its own place, and nothing between tiles", () => {
  const layout = fleet(nodes(30)), at = placed(layout, "pool", 900, 600), picker = new Picker(at);
  for (let row = 0; row < layout.count; row += 1) {
    assert.equal(picker.at(at.x[row] + at.size / 2, at.y[row] + at.sizeY / 2), row);
    assert.equal(picker.at(at.x[row], at.y[row]), row);
  }
  assert.equal(picker.at(2, 2), null);
});

test("arrow keys reach every neighbour and stop at the edge", () => {
  const layout = fleet(nodes(2)), at = placed(layout, "pool", 900, 600), picker = new Picker(at);
  assert.equal(picker.step(null, 1, 0), 0);
  assert.equal(picker.step(0, 1, 0), 1);
  assert.equal(picker.step(0, 0, 1), 2);
  assert.equal(picker.step(1, 1, 0), 8); // into the next node's tile
  assert.equal(picker.step(0, -1, 0), 0);
  assert.equal(picker.step(picker.last(), 0, 1), picker.last());
});

test("with nothing shown there is nothing to pick", () => {
  const picker = new Picker(arrange([], 3, 400, 400));
  assert.deepEqual([picker.at(5, 5), picker.step(null, 1, 0), picker.first()], [null, null, null]);
});

// ---- the camera ----

const looking = () => {
  const camera = new Camera();
  camera.frame(1000, 500, { width: 1000, height: 500, closest: 8 });
  return camera;
};

test("a zoom keeps the point under the pointer in its place", () => {
  const camera = looking();
  camera.zoomTo(4, 200, 100);
  assert.deepEqual([(camera.x + 200) / 4, (camera.y + 100) / 4], [200, 100]);
});

test("nobody looks beyond the map, nor nearer than makes sense", () => {
  const camera = looking();
  camera.zoomTo(100, 0, 0);
  camera.pan(-50, 1e9);
  assert.deepEqual([camera.zoom, camera.x, camera.y], [8, 0, 500 * 8 - 500]);
  camera.zoomTo(0.1);
  assert.ok(camera.isWhole && camera.x === 0 && camera.y === 0);
});

test("the focus is brought into the window, which moves no more than it must", () => {
  const camera = looking();
  camera.zoomTo(4, 0, 0);
  camera.reveal(10, 10, 5, 5);
  assert.deepEqual([camera.x, camera.y], [0, 0]);
  camera.reveal(900, 10, 5, 5);
  assert.deepEqual([camera.x, camera.y], [905 * 4 + 24 - 1000, 0]);
});

test("an address brings back zoom and place", () => {
  const camera = looking(), other = looking();
  camera.zoomTo(3, 700, 200);
  other.lookAt(camera.zoom, camera.centre);
  assert.ok(Math.abs(other.x - camera.x) < 1e-6 && Math.abs(other.y - camera.y) < 1e-6);
});

// ---- the card ----

test("a card hides neither its cell nor the neighbours, at any edge", () => {
  for (const [width, height] of [[1392, 700], [600, 500]]) for (const x of [0, 30, width / 2, width - 40]) for (const y of [0, height / 2, height - 40]) {
    const cell = { x, y, width: 28, height: 28, pitch: 30 }, { left, top } = besides(cell, 312, 180, width, height);
    const apart = left >= x + 28 + 30 || left + 312 <= x - 30 || top >= y + 28 + 30 || top + 180 <= y - 30;
    assert.ok(apart, `${x} ${y} in ${width}: ${left} ${top}`);
  }
});

// ---- counts ----

test("counts follow what changes, by group and in all", () => {
  const rows = rowsOf(cell(OK, { [HEADROOM]: 0 }), cell(STALE), cell(OK, { 11: FLAG.OFFLINE })), tally = new Tally(rows, Int32Array.of(0, 0, 1), 2, FILLS.headroom);
  const all = (kind) => tally.total[KIND_AT[kind]];
  tally.follow(rows);
  assert.deepEqual(["HEALTHY", "NO_DATA", "ZERO", "STALE", "UNSUPPORTED", "GUESTS"].map(all), [2, 1, 1, 1, 1, 1]);
  rows.columns[0][1] = OK;
  rows.columns[1][1] = 4;
  tally.changed.fill(0);
  tally.follow(rows);
  tally.follow(rows);
  assert.deepEqual([tally.of(0, "NO_DATA"), tally.of(0, "OVERLIMIT"), tally.of(1, "OVERLIMIT"), all("STALE")], [0, 1, 0, 0]);
  assert.deepEqual([...tally.changed], [1, 0]);
});

test("a brush is the same after its way through an address", () => {
  for (const brush of [{ kind: "range", from: 20, to: 40 }, { kind: "look", name: "IDLE" }, { kind: "state", name: "OVERLIMIT" }, { kind: "guests", name: "GUESTS" }]) assert.deepEqual(brushOf(brushText(brush)), brush);
  assert.equal(brushOf("nonsense"), null);
  assert.equal(brushText(null), null);
});

test("counts of nodes are their tiles' own, and only what changed is told", () => {
  const rows = new Rows(2, TILE_WIDTH), tally = new NodeTally(rows, Int32Array.of(0, 1), 2, FILLS.headroom);
  rows.columns[COUNT.HEALTHY].set([8, 6]);
  rows.columns[COUNT.STALE][1] = 2;
  tally.follow(rows);
  assert.deepEqual(["HEALTHY", "NO_DATA", "STALE"].map((kind) => tally.total[KIND_AT[kind]]), [14, 2, 2]);
  tally.changed.fill(0);
  rows.columns[COUNT.HEALTHY][1] = 7;
  tally.follow(rows);
  assert.deepEqual([...tally.changed], [0, 1]);
});

test("a brush holds what its word says: silence is no value, and an import no state", () => {
  const rows = rowsOf(cell(OK, { [HEADROOM]: 60 }), cell(OK, { [HEADROOM]: MISSING, 1: 4 }), cell(STALE, { [HEADROOM]: 60, 11: FLAG.OFFLINE }), cell(UNSUPPORTED, { 11: FLAG.OFFLINE }));
  const held = (text) => [0, 1, 2, 3].filter(holds(brushOf(text), rows, FILLS.headroom, Uint8Array.of(0, 0, 0, 1)));
  assert.deepEqual(held("20-40"), [0]);
  assert.deepEqual(held("unsupported"), [1, 3]);
  assert.deepEqual(["overlimit", "init", "no_data"].map(held), [[1], [3], [2]]);
  assert.deepEqual(held("guests"), [3]);
  assert.equal(holds(null, rows, FILLS.headroom, null), null);
});
