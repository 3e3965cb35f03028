// Where the map is painted: in the worker that hears the feed, so that neither frames nor panning keep the page waiting; in the page where browsers cannot.
import { Remote } from "../remote.js";
import { feeding, store } from "../socket.js";
import { Painter } from "./painter.js";

const FAMILY = "Inter Variable";

/** A painter for a canvas, which follows the feed by itself: show, look, keep, rest, end. `onCounts`, if anybody wants them, is told News of how many rows are how. */
export async function painterOf(canvas, onCounts) {
  const feed = await feeding;
  return feed instanceof Remote ? new There(feed, canvas, onCounts) : new Here(canvas, onCounts);
}

/** In the page. */
class Here {
  constructor(canvas, onCounts) {
    Object.assign(this, { painter: new Painter(canvas), onCounts });
    this.follow = ({ detail: { detail } }) => detail && this.painter.rows === store[detail] && this.paint(store[detail]);
    document.addEventListener("mf:cells", this.follow);
  }

  paint(rows) {
    this.painter.cells(rows);
    this.onCounts?.(this.painter.news());
  }

  show(view, camera, rows) {
    this.painter.show(view, camera, rows);
    this.onCounts?.(this.painter.news());
  }

  look(camera) { this.painter.look(camera); }
  keep(brush) { this.painter.keep(brush); }
  rest() { this.painter.rest(); }
  end() { document.removeEventListener("mf:cells", this.follow); }
}

/** In the worker, under a number. */
class There {
  static last = 0;

  constructor({ worker, counts }, canvas, onCounts) {
    Object.assign(this, { worker, counts, number: There.last += 1 });
    const moved = canvas.transferControlToOffscreen();
    if (onCounts) counts.set(this.number, onCounts);
    worker.postMessage(["start", this.number, moved, faces(), Boolean(onCounts)], [moved]);
  }

  have(name, ...given) { this.worker.postMessage([name, this.number, ...given]); }

  /** `placed` without what only a page needs of it. */
  show({ placed, ...view }, camera, rows) {
    const { x, y, tiles, pitch, nameRoom, size, sizeY } = placed, groups = placed.groups.map(({ name, note, size: gpus, x: left, y: top, width }) => ({ name, note, size: gpus, x: left, y: top, width }));
    this.have("show", store.layout.epoch, { ...view, placed: { x, y, tiles, pitch, nameRoom, size, sizeY, groups } }, camera, rows === store.nodes ? "nodes" : "gpus");
  }

  look(camera) { this.have("look", camera); }
  keep(brush) { this.have("keep", brush); }
  rest() { this.have("rest"); }

  end() {
    this.counts.delete(this.number);
    this.have("end");
  }
}

/** The page's font, as a worker can load it: a style sheet's own addresses are relative to it. */
function faces() {
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).filter((rule) => rule instanceof CSSFontFaceRule);
  return rules.map(({ style, parentStyleSheet: { href } }) => ({
    family: style.getPropertyValue("font-family").replace(/["']/g, ""), weight: style.getPropertyValue("font-weight"), unicodeRange: style.getPropertyValue("unicode-range"),
    source: style.getPropertyValue("src").replace(/url\("?([^")]+)"?\)/g, (_, address) => `url("${new URL(address, href)}")`),
  })).filter(({ family }) => family === FAMILY);
}
