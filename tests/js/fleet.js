// A small fleet for these tests.
import { Layout, Rows, maskOf } from "../../static/js/store.js";
import { HEADROOM, MISSING, P99, SM_ACTIVITY, WIDTH } from "../../static/js/wire.js";

/** `nodes` of [name, pool, GPUs]; ids from 10; the first GPU of each node carries the service "rank". */
export const fleet = (nodes, options) => new Layout(documentOf(nodes, options));

/** The same as the console answers it. */
export function documentOf(nodes = [["n1", "search", 3]], { agent = true, epoch = 7 } = {}) {
  const pools = [...new Set(nodes.map(([, pool]) => pool))], gpus = nodes.flatMap(([, , count], node) => Array.from({ length: count }, (_, index) => ({ node, index })));
  return {
    epoch, pools, models: ["A100", "T4"], services: ["rank"],
    nodes: { name: nodes.map(([name]) => name), pool: nodes.map(([, pool]) => pools.indexOf(pool)), rack: nodes.map(() => null), agent: nodes.map(() => agent) },
    gpus: {
      id: gpus.map((_, i) => i + 10), index: gpus.map((gpu) => gpu.index), node: gpus.map((gpu) => gpu.node), model: gpus.map(() => 0),
      service: gpus.map((gpu) => (gpu.index ? -1 : 0)), memory_bytes: gpus.map(() => 8e10),
    },
  };
}

/** A cell of HEALTHY with all values missing but `fields` (field number → byte). */
export function cell(look, fields = {}) {
  const out = new Uint8Array(WIDTH).fill(MISSING);
  out[0] = look;
  out[1] = 1;
  out[11] = 0;
  for (const [field, byte] of Object.entries(fields)) out[field] = byte;
  return out;
}

/** Rows that hold these cells, all fields watched. */
export function rowsOf(...cells) {
  const rows = new Rows(cells.length, WIDTH);
  rows.watch = { number: 1, mask: maskOf(Array(WIDTH).keys()), rows: null, closer: null };
  cells.forEach((bytes, row) => bytes.forEach((byte, column) => { rows.columns[column][row] = byte; }));
  return rows;
}

/** What `frame` is watched for. */
export const WATCHED = { fields: [HEADROOM, SM_ACTIVITY, P99], rows: null };

const ALL = 0, GAPS = 2;

/** A frame of the GPUs `cells` (by row) of a fleet of three; a snapshot holds them all. */
export function frame(kind, sequence, cells, { base = sequence - 1, epoch = 7, watch = 1, rows = 3, detail = "gpus" } = {}) {
  const at = Object.keys(cells).map(Number), columns = at.length ? [...Array(WIDTH).keys()] : [];
  const gaps = at.map((row, i) => row - (i ? at[i - 1] + 1 : 0));
  const block = (column) => ({ column, told: kind === "snapshot" ? ALL : GAPS, named: Uint8Array.from(kind === "snapshot" ? [] : gaps), values: Uint8Array.from(at, (row) => cells[row][column]) });
  return { kind, sequence, base, epoch, watch, rows, detail, at: 100 + sequence, blocks: columns.map(block) };
}
