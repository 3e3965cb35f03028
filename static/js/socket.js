// The live feed as a page hears it. Keeps the store, tells whoever asked eachSecond(), and the page on document:
//   mf:summary  the fleet in numbers     once a second; on a page with a map what it heeds of them, when that has changed
//   mf:event    {op, …}                  somebody changed something
//   mf:cells    {detail, layout}         values of GPUs or nodes that it knows changed; layout: the store now holds another fleet
//   mf:feed     {bytes_s, frames_s}      what this tab received a second, over the last thirty: told every thirty
// Frames come only to a tab that says what it draws: watch(). Where a map is drawn, the connection and all cells are in the worker that paints it
// (remote.js), and the store knows of its rows what follow() and read() ask for.
import { Feed } from "./feed.js";
import { remoteOf } from "./remote.js";
import { Store } from "./store.js";
import { FIELDS } from "./wire.js";

const MAPS = "canvas[data-heatmap]", MOST_RANGES = 4_096;
const QUIET_MS = 1_250, SILENCE_MS = 8_000; // QUIET_MS: a summary comes every second
const FIRST_TOLD_MS = 2_000, TOLD_MS = 29_500; // of what is received: with the second or the thirtieth summary

export const store = new Store();

let begin;
/** A Feed or a Remote, once it is known which. */
export const feeding = new Promise((known) => { begin = known; });
const have = (name, ...given) => feeding.then((feed) => feed[name](...given));

/** Connects when somebody is signed in (the header with the age of the data is there). */
export function start() {
  if (!document.getElementById("data-age")) return;
  document.addEventListener("mf:reconnect", () => have("connect"));
  document.addEventListener("visibilitychange", () => !document.hidden && have("wake"));
  addEventListener("pagehide", () => have("leave"));
  addEventListener("pageshow", (event) => event.persisted && have("connect"));
  expectSecond();
  const hear = (name, ...given) => HEARS[name]?.(...given), here = () => new Feed(store, hear);
  begin(document.querySelector(MAPS) ? remoteOf(store, hear).then((remote) => remote ?? here()) : here());
  have("connect");
}

// ---- what a page asks for ----

const asked = { number: 0, wish: null };

/**
 * From now on this tab draws: detail "gpus" | "nodes" | "none", fields (column numbers) of these rows (null: all),
 * and all fields of the few rows in `closer`. Looks, states and flags (of nodes: counts) of every row always come.
 */
export function watch({ detail, fields = [], rows = null, closer = [] }) {
  const { layout } = store, gpus = rows && layout.ranges(rows), far = gpus && gpus.length <= MOST_RANGES ? gpus : null;
  const wish = { detail, fields: fields.map((field) => FIELDS[field]), gpus: far, closer: layout.ranges(closer) }, text = JSON.stringify(wish);
  if (text === asked.wish && store.watches.has(asked.number)) return;
  Object.assign(asked, { wish: text, number: asked.number + 1 });
  have("watch", asked.number, wish, { fields, rows: far && mask(layout.count, rows), closer: closer.length ? mask(layout.count, closer) : null });
}

function mask(count, rows) {
  const out = new Uint8Array(count);
  for (const row of rows) out[row] = 1;
  return out;
}

/** From now on the store knows these rows, a moment from now and with each second; others it may not. */
export const follow = (detail, rows) => have("follow", detail, rows);

const heeded = new Set();

/** These keys of the summary are shown. What they are now comes anew. */
export function heed(keys) {
  for (const key of keys) heeded.add(key);
  have("heed", [...heeded]);
}

/** Once these columns of all GPUs are in the store, as they are now. Never, where another fleet comes before. */
export const read = (columns) => have("read", columns);

// ---- what it hears ----

const listeners = [];

/** `hear(ageS, isConnected)` is told about once a second how old the data is (null: nothing was heard of yet); what else is due then goes by it. */
export const eachSecond = (hear) => listeners.push(hear);

const heard = { atMs: 0, openedMs: 0, ageS: null, isConnected: false, quiet: 0 };
const received = { bytes: 0, frames: 0, since: 0, untilMs: FIRST_TOLD_MS }; // since it was last told

const HEARS = {
  connection(isConnected) {
    heard.isConnected = isConnected;
    if (isConnected) heard.openedMs = performance.now();
    else tellAge();
  },
  signedOut() { location.reload(); }, // the sign-in page knows where to come back to
  lost() { location.reload(); }, // the address holds what is looked at
  second(ageS, summary, bytes, frames) {
    heard.atMs = performance.now();
    heard.ageS = ageS;
    received.bytes += bytes;
    received.frames += frames;
    expectSecond();
    tellReceived(heard.atMs);
    for (const hear of listeners) hear(ageS, true);
    if (summary !== null) tell("mf:summary", summary);
  },
  event(message) { tell("mf:event", message); },
  cells(detail) { tell("mf:cells", { detail, layout: false }); },
  layout() { tell("mf:cells", { layout: true }); },
};

/** The age is told with each summary, and without where none comes: a timer of its own would wake the page once more each second. */
function expectSecond() {
  clearTimeout(heard.quiet);
  heard.quiet = setTimeout(onQuiet, QUIET_MS);
}

function onQuiet() {
  expectSecond();
  tellAge();
  tellReceived(performance.now());
}

function tellAge() {
  const { atMs, openedMs, ageS } = heard, now = performance.now();
  if (heard.isConnected && now - Math.max(atMs, openedMs) > SILENCE_MS) { // open in name only
    heard.isConnected = false;
    have("connect");
  }
  for (const hear of listeners) hear(ageS == null ? null : ageS + (now - atMs) / 1000, heard.isConnected);
}

function tellReceived(now) {
  const ms = now - received.since;
  if (ms < received.untilMs) return;
  tell("mf:feed", { bytes_s: received.bytes * 1000 / ms, frames_s: received.frames * 1000 / ms });
  Object.assign(received, { bytes: 0, frames: 0, since: now, untilMs: TOLD_MS });
}

function tell(name, detail) {
  document.dispatchEvent(new CustomEvent(name, { detail }));
}
