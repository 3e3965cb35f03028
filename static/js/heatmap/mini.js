// The small map of the Overview: of a small fleet every GPU, of a large one a tile a node, coloured by its worst GPU. A click opens the map.
import { store, watch } from "../socket.js";
import { HEADROOM } from "../wire.js";
import { FILLS } from "./colour.js";
import { Heat } from "./draw.js";
import { NodeNames, group } from "./layout.js";

const LEGIBLE_PX = 8; // GPUs that would be smaller are shown by their nodes
const USED = 0.75; // of the card: the rest are names and gaps

/** Starts on <canvas data-heatmap="mini" data-module="heatmap/mini" data-href="/map/">. */
export async function mount(canvas) {
  await document.fonts.load('500 11px "Inter Variable"');
  const narrow = canvas.clientWidth < 500;
  const heat = new Heat(canvas, { columns: narrow ? 2 : 8, pad: 2, gap: 14, labels: 18, under: 6, font: 11, least: 3, most: 60, tileNames: false, compact: true });
  const showAll = () => {
    const { layout } = store, detail = detailOf(layout, canvas.clientWidth, canvas.clientHeight), names = detail === "gpus" ? layout : new NodeNames(layout);
    watch({ detail, fields: [HEADROOM] });
    heat.show({ rows: store[detail], groups: group(names, [...Array(names.count).keys()], "pool"), fill: FILLS.headroom, imported: detail === "gpus" ? layout.imported : null });
  };
  showAll();
  const onCells = ({ detail }) => {
    if (!canvas.isConnected) { heat.destroy(); document.removeEventListener("mf:cells", onCells); return; }
    if (detail.layout) showAll();
  };
  document.addEventListener("mf:cells", onCells);
  if (canvas.dataset.href) canvas.addEventListener("click", () => { location.href = canvas.dataset.href; });
}

/** What fills the card without specks: "gpus", or "nodes" of a fleet too large for that. */
export function detailOf(layout, width, height) {
  return Math.sqrt((width * height * USED) / Math.max(1, layout.count)) < LEGIBLE_PX ? "nodes" : "gpus";
}
