// The same cases hold the server's twin: tests/console/test_figures.py.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import * as figures from "../../static/js/figures.js";

const golden = JSON.parse(readFileSync(new URL("../console/golden_figures.json", import.meta.url)));

for (const [name, cases] of Object.entries(golden)) {
  test(`${name} reads the same on both sides`, () => {
    for (const [args, text] of cases) assert.equal(figures[name](...args), text, `${name}(${args})`);
  });
}
