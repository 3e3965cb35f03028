// A small fleet for these tests.
import { Layout } from "../../static/js/store.js";
import { MISSING, WIDTH } from "../../static/js/wire.js";

/** `nodes` of [name, pool, GPUs]; ids from 10; the first GPU of each node carries the service "rank". */
export function fleet(nodes = [["n1", "search", 3]], { agent = true, epoch = 7 } = {}) {
  const pools = [...new Set(nodes.map(([, pool]) => pool))], gpus = nodes.flatMap(([, , count], node) => Array.from({ length: count }, (_, index) => ({ node, index })));
  return new Layout({
    epoch, pools, models: ["A100", "T4"], services: ["rank"],
    nodes: { name: nodes.map(([name]) => name), pool: nodes.map(([, pool]) => pools.indexOf(pool)), rack: nodes.map(() => null), agent: nodes.map(() => agent) },
    gpus: {
      id: gpus.map((_, i) => i + 10), index: gpus.map((gpu) => gpu.index), node: gpus.map((gpu) => gpu.node), model: gpus.map(() => 0),
      service: gpus.map((gpu) => (gpu.index ? -1 : 0)), memory_bytes: gpus.map(() => 8e10),
    },
  });
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

/** A frame with `cells` by GPU id. */
export const frame = (kind, sequence, cells, epoch = 7) => ({
  kind, sequence, epoch, at: 100 + sequence, width: WIDTH,
  ids: Uint32Array.from(Object.keys(cells), Number), cells: Uint8Array.from(Object.values(cells).flatMap((one) => [...one])),
});
