// The small map of the Overview: a tile a node, coloured by its worst GPU. A click opens the map.
import { store, watch } from "../socket.js";
import { HEADROOM } from "../wire.js";
import { FILLS } from "./colour.js";
import { Heat } from "./draw.js";
import { NodeNames, group } from "./layout.js";

/** Starts on <canvas data-heatmap="mini" data-module="heatmap/mini" data-href="/map/">. */
export async function mount(canvas) {
  await document.fonts.load('500 11px "Inter Variable"');
  const narrow = () => canvas.clientWidth < 500;
  const heat = new Heat(canvas, { columns: narrow() ? 2 : 8, pad: 2, gap: 14, labels: 18, under: 6, font: 11, least: 3, most: 34, tileNames: false, compact: true });
  const showAll = () => {
    const { nodes, layout } = store;
    watch({ detail: "nodes", fields: [HEADROOM] });
    heat.show({ rows: nodes, groups: group(new NodeNames(layout), [...Array(layout.nodeCount).keys()], "pool"), fill: FILLS.headroom });
  };
  const onCells = ({ detail }) => {
    if (!canvas.isConnected) { heat.destroy(); document.removeEventListener("mf:cells", onCells); return; }
    if (detail.layout) showAll();
    else if (detail.detail === "nodes") heat.update();
  };
  document.addEventListener("mf:cells", onCells);
  showAll();
  if (canvas.dataset.href) canvas.addEventListener("click", () => { location.href = canvas.dataset.href; });
}
