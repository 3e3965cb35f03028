// The painter in a thread of its own; `thread.js` is its other end. A message is [method, …arguments]; counts go back as they are.
import { Cells } from "../store.js";
import { Painter } from "./painter.js";

let painter;

const DOES = {
  async start(cells, names, faces) {
    for (const { family, source, ...about } of faces) fonts.add(new FontFace(family, source, about));
    await fonts.load('600 12px "Inter Variable"').catch(() => null); // without it names are drawn in another font
    painter = new Painter(cells, names, (counts) => postMessage(counts));
  },
  show(view, camera, rows) { painter.show(view, camera, new Cells(rows)); },
  cells(rows) { painter.cells(new Cells(rows)); },
  look(camera) { painter.look(camera); },
  keep(brush) { painter.keep(brush); },
};

let done = Promise.resolve();
addEventListener("message", ({ data: [name, ...given] }) => {
  if (painter) DOES[name](...given);
  else done = done.then(() => DOES[name](...given)); // in their order, the first once fonts are there
});
postMessage("ready");
