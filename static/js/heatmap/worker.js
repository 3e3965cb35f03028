// The painter in a thread of its own; `thread.js` is its other end. A message is [method, …arguments]; counts go back as they are.
import { Cells } from "../store.js";
import { decode } from "../wire.js";
import { Painter } from "./painter.js";

let painter, cells;

const DOES = {
  async start(canvas, faces) {
    for (const { family, source, ...about } of faces) fonts.add(new FontFace(family, source, about));
    await fonts.load('600 12px "Inter Variable"').catch(() => null); // without it names are drawn in another font
    painter = new Painter(canvas, (counts) => postMessage([...counts]));
  },
  show(view, camera, rows) { painter.show(view, camera, cells = new Cells(rows)); },
  cells(rows) { painter.cells(cells = new Cells(rows)); },
  delta(bytes) {
    cells.take(decode(bytes).blocks);
    painter.cells(cells);
  },
  look(camera) { painter.look(camera); },
  keep(brush) { painter.keep(brush); },
};

let done = Promise.resolve();
addEventListener("message", ({ data: [name, ...given] }) => {
  if (painter) DOES[name](...given);
  else done = done.then(() => DOES[name](...given)); // in their order, the first once fonts are there
});
postMessage("ready");
