// The feed and its painters in a thread of their own; `remote.js` and `thread.js` are its other ends. A message to it is [name, …arguments]; one to the page
// is a list of such: what a Feed tells, and the counts, the cells that the page reads and the columns that it asks for.
import { Feed } from "../feed.js";
import { Store } from "../store.js";
import { Painter } from "./painter.js";

const store = new Store(), painters = new Map();
const PAINTED_WITHIN_MS = 100;
const NOTHING = { number: 0, detail: "gpus", rows: [] };
let followed = NOTHING, changed = null; // the detail whose cells changed since the last summary

const feed = new Feed(store, (...news) => {
  if (news[0] === "cells") return repaint(news[1]);
  if (news[0] === "layout") followed = NOTHING;
  if (news[0] === "summary") return oncePainted(() => postMessage([...second(), news]));
  postMessage([news]);
});

/** So that the page does not wait for the cores that paint; where no frame of the screen comes, as in a hidden tab, after a while. */
function oncePainted(tell) {
  const frame = requestAnimationFrame(go), late = setTimeout(go, PAINTED_WITHIN_MS);
  function go() {
    cancelAnimationFrame(frame);
    clearTimeout(late);
    tell();
  }
}

function repaint(detail) {
  changed = detail;
  for (const painter of painters.values()) if (painter.rows === store[detail]) painter.cells(painter.rows);
}

/** What the page is told with the summary of a second, so that one message wakes it. */
function second() {
  const detail = changed, counting = [...painters].filter(([, { rows }]) => rows !== null && rows === store[detail]);
  changed = null;
  return detail ? [...counting.map(([number, painter]) => counts(number, painter)), cells(detail)] : [];
}

const counts = (number, painter) => ["counts", number, [...painter.count()]];

function cells(detail) {
  const isFollowed = detail === followed.detail && followed.rows.length > 0;
  return ["cells", detail, store[detail].watch?.number, followed.number, isFollowed ? store[detail].bytesOf(followed.rows) : null];
}

const ASKED = {
  connect() { feed.connect(); },
  wake() { feed.wake(); },
  leave() { feed.leave(); },
  watch(...given) { feed.watch(...given); },

  follow(epoch, rows) {
    if (epoch !== store.layout.epoch) return;
    followed = rows;
    postMessage([cells(followed.detail)]);
  },

  read(epoch, columns) { postMessage([["answer", epoch === store.layout.epoch ? columns.map((column) => store.gpus.columns[column]) : null]]); },
};

// By the number of the painter.
const PAINTS = {
  start(number, canvas) { painters.set(number, new Painter(canvas)); },

  /** Of another fleet than the page has heard of nothing is shown; it will be told at once. */
  show(number, epoch, view, camera, detail) {
    if (epoch !== store.layout.epoch) return;
    const painter = painters.get(number);
    painter.show(view, camera, store[detail]);
    postMessage([counts(number, painter)]);
  },

  look(number, camera) { painters.get(number).look(camera); },
  keep(number, brush) { painters.get(number).keep(brush); },
  rest(number) { painters.get(number).rest(); },
  end(number) { painters.get(number).rest(); painters.delete(number); },
};

let ready; // once fonts are there; what is painted waits for them, each in its turn

async function load(faces) {
  for (const { family, source, ...about } of faces) fonts.add(new FontFace(family, source, about));
  await fonts.load('600 12px "Inter Variable"').catch(() => null); // without it names are drawn in another font
}

addEventListener("message", ({ data: [name, ...given] }) => {
  if (name in ASKED) return ASKED[name](...given);
  if (name === "start") ready ??= load(given[2]);
  ready.then(() => PAINTS[name](...given));
});
postMessage("ready");
