// Where the map is painted: in a worker, so that neither frames nor panning keep the page waiting; in the page where browsers cannot.
import { Painter } from "./painter.js";

const FAMILY = "Inter Variable", STARTS_WITHIN_MS = 5_000;

/** A painter for a canvas, whose counts `onCounts` is told: with the methods of `Painter`, and `end()`. */
export async function painterOf(canvas, onCounts) {
  const worker = await started();
  if (worker === null) return Object.assign(new Painter(canvas, onCounts), { end() {} });
  const there = new Remote(worker);
  worker.addEventListener("message", ({ data }) => onCounts(data));
  there.start(canvas.transferControlToOffscreen());
  return there;
}

/** The worker once it runs; null where there can be none. Only then is a canvas handed over, which cannot be taken back. */
async function started() {
  if (!globalThis.Worker || !globalThis.HTMLCanvasElement?.prototype.transferControlToOffscreen || !import.meta.resolve) return null;
  const worker = new Worker(import.meta.resolve("./worker.js"), { type: "module", name: "map" });
  const runs = await new Promise((tell) => {
    worker.addEventListener("message", () => tell(true), { once: true });
    worker.addEventListener("error", () => tell(false), { once: true });
    setTimeout(tell, STARTS_WITHIN_MS, false);
  });
  if (!runs) worker.terminate();
  return runs ? worker : null;
}

/** A painter in another thread. */
export class Remote {
  constructor(worker) { this.worker = worker; }

  start(canvas) { this.worker.postMessage(["start", canvas, faces()], [canvas]); }

  show({ placed, ...view }, camera, rows) {
    const { x, y, tiles, pitch, nameRoom, size, sizeY } = placed, groups = placed.groups.map(({ name, note, size: gpus, x: left, y: top, width }) => ({ name, note, size: gpus, x: left, y: top, width }));
    Object.assign(this, { rows, version: rows.version, field: view.fill.field });
    this.worker.postMessage(["show", { ...view, placed: { x, y, tiles, pitch, nameRoom, size, sizeY, groups } }, camera, rows.drawn(this.field)]);
  }

  /** By the delta that brought them, which is not copied; whole where there is none, or the worker lacks what was before it. */
  cells(rows, delta) {
    const isNext = delta?.byteLength > 0 && rows === this.rows && rows.version === this.version + 1;
    if (isNext) this.worker.postMessage(["delta", delta], [delta]);
    else this.worker.postMessage(["cells", rows.drawn(this.field)]);
    Object.assign(this, { rows, version: rows.version });
  }

  look(camera) { this.worker.postMessage(["look", camera]); }
  keep(brush) { this.worker.postMessage(["keep", brush]); }
  end() { this.worker.terminate(); }
}

/** The page's font, as a worker can load it: a style sheet's own addresses are relative to it. */
function faces() {
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).filter((rule) => rule instanceof CSSFontFaceRule);
  return rules.map(({ style, parentStyleSheet: { href } }) => ({
    family: style.getPropertyValue("font-family").replace(/["']/g, ""), weight: style.getPropertyValue("font-weight"), unicodeRange: style.getPropertyValue("unicode-range"),
    source: style.getPropertyValue("src").replace(/url\("?([^")]+)"?\)/g, (_, address) => `url("${new URL(address, href)}")`),
  })).filter(({ family }) => family === FAMILY);
}
