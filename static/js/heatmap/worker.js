// The feed and its painters in a thread of their own; `remote.js` and `thread.js` are its other ends. A message, either way, is [name, …arguments]: to the page
// what a Feed tells, and the counts, the cells that the page reads and the columns that it asks for.
import { Feed } from "../feed.js";
import { NONE_FOLLOWED, Store } from "../store.js";
import { Painter } from "./painter.js";

const store = new Store(), painters = new Map();
const PAINTED_WITHIN_MS = 100;
let followed = NONE_FOLLOWED, changed = null; // the detail whose cells changed since the last second
let seen = null; // the watch that the page was told of, in words
let heeded = [], heard = null; // keys of the summary that the page shows, and what it was told of them, in words

const feed = new Feed(store, (...news) => {
  if (news[0] === "cells") return repaint(news[1]);
  if (news[0] === "second") return oncePainted(() => second(...news.slice(1)));
  if (news[0] === "layout") [followed, seen] = [NONE_FOLLOWED, null];
  postMessage(news);
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

/** Wakes the page once: with what is otherwise than it shows, and flat, as unpacking is most of what it has to do. */
function second(ageS, summary, bytes, frames) {
  const detail = changed;
  changed = null;
  postMessage(["second", ageS, heedOf(summary), bytes, frames, detail && countsOf(detail), detail && newCells(detail)]);
}

/** What the page shows of a summary; null where that is as before. */
function heedOf(summary) {
  const part = Object.fromEntries(heeded.map((key) => [key, summary[key]])), words = JSON.stringify(part);
  if (words === heard) return null;
  heard = words;
  return part;
}

/** [painter, News of its counts, …] of those that show rows of this detail. */
function countsOf(detail) {
  const told = [...painters].filter(([, { isCounted, rows }]) => isCounted && rows !== null && rows === store[detail]).flatMap(([number, painter]) => [number, painter.news()]);
  return told.some((news) => news.length > 0) ? told : null;
}

/** The cells that the page reads; null where it reads none and knows what is watched. */
function newCells(detail) {
  const told = cells(detail), watch = `${detail} ${told[1]}`;
  if (told[3] === null && watch === seen) return null;
  seen = watch;
  return told;
}

function cells(detail) {
  const isFollowed = detail === followed.detail && followed.rows.length > 0;
  return [detail, store[detail].watch?.number, followed.number, isFollowed ? store[detail].bytesOf(followed.rows) : null];
}

const ASKED = {
  connect() {
    postMessage(["alive"]);
    feed.connect();
  },

  wake() { feed.wake(); },
  leave() { feed.leave(); },
  watch(...given) { feed.watch(...given); },

  follow(epoch, rows) {
    if (epoch !== store.layout.epoch) return;
    followed = rows;
    postMessage(["cells", ...cells(followed.detail)]);
  },

  heed(keys) {
    heeded = keys;
    heard = null;
  },

  read(epoch, columns) { postMessage(["answer", epoch === store.layout.epoch ? columns.map((column) => store.gpus.columns[column]) : null]); },
};

// By the number of the painter.
const PAINTS = {
  start(number, canvas, _, isCounted) { painters.set(number, Object.assign(new Painter(canvas), { isCounted })); },

  /** Of another fleet than the page has heard of nothing is shown; it will be told at once. */
  show(number, epoch, view, camera, detail) {
    if (epoch !== store.layout.epoch) return;
    const painter = painters.get(number);
    painter.show(view, camera, store[detail]);
    if (painter.isCounted) postMessage(["counts", number, painter.news()]);
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
