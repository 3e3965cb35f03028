// The small map of the Overview: every GPU by headroom. A click opens the map.
import { store } from "../socket.js";
import { FILLS } from "./colour.js";
import { Heat } from "./draw.js";

/** Starts on <canvas data-heatmap="mini" data-module="heatmap/mini" data-href="/map/">. */
export async function mount(canvas) {
  await document.fonts.load('500 11px "Inter Variable"');
  const narrow = () => canvas.clientWidth < 500;
  const heat = new Heat(canvas, store, { columns: narrow() ? 2 : 8, pad: 2, gap: 14, labels: 18, under: 6, font: 11, least: 3, most: 22, tileNames: false, compact: true });
  const showAll = () => heat.show({ rows: [...Array(store.layout.count).keys()], by: "pool", fill: FILLS.headroom });
  const onCells = ({ detail }) => {
    if (!canvas.isConnected) { heat.destroy(); document.removeEventListener("mf:cells", onCells); return; }
    detail.layout || heat.groups.length === 0 ? showAll() : heat.update(detail.changed);
  };
  document.addEventListener("mf:cells", onCells);
  if (store.layout.count) showAll();
  if (canvas.dataset.href) canvas.addEventListener("click", () => { location.href = canvas.dataset.href; });
}
