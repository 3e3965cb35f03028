// The one connection of a tab to the live feed. Keeps the store, and tells the page on document:
//   mf:summary  the fleet in numbers     once a second, with age_s; what else is due each second goes by it
//   mf:live     {age_s, connected}       about every second in which there is no summary
//   mf:event    {op, …}                  somebody changed something
//   mf:cells    {store, detail, delta, layout} values of GPUs or nodes changed, by a delta of these bytes (null: by more); layout: the store now holds another fleet
//   mf:feed     {bytes_s, frames_s}      what this tab received a second, over the last ten: told every ten
// Frames come only to a tab that says what it draws: watch().
import { Store, Layout } from "./store.js";
import { FIELDS, decode } from "./wire.js";

const PATH = "/ws/live/", LAYOUT = "/live/layout.json", SIGN_IN = 4401, MOST_RANGES = 4_096;
const SNAPSHOT = JSON.stringify({ op: "snapshot" });
const FIRST_WAIT_MS = 500, LONGEST_WAIT_MS = 10_000, QUIET_MS = 1_250, SILENCE_MS = 8_000; // QUIET_MS: a summary comes every second
const FIRST_TOLD_MS = 2_000, TOLD_MS = 9_500; // of what is received: with the second or the tenth summary

export const store = new Store();

/** How long to wait before try number `attempt` (0, 1, …): doubling, jittered, so that tabs do not all come back at once. */
export function waitMs(attempt, random = Math.random()) {
  return Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt) * (0.5 + random / 2);
}

const state = { socket: null, attempt: 0, timer: 0, heardAt: 0, quiet: 0, ageS: null, wanted: null, waiting: null, number: 0, wish: null };

const received = { bytes: 0, frames: 0, since: 0, untilMs: FIRST_TOLD_MS }; // since it was last told

/**
 * From now on this tab draws: detail "gpus" | "nodes" | "none", fields (column numbers) of these rows (null: all),
 * and all fields of the few rows in `closer`. Looks, states and flags (of nodes: counts) of every row always come.
 */
export function watch({ detail, fields = [], rows = null, closer = [] }) {
  const { layout } = store, gpus = rows && layout.ranges(rows), far = gpus && gpus.length <= MOST_RANGES ? gpus : null;
  const wish = JSON.stringify({ detail, fields: fields.map((field) => FIELDS[field]), gpus: far, closer: layout.ranges(closer) });
  if (wish === state.wish && store.watches.has(state.number)) return;
  Object.assign(state, { wish, number: state.number + 1 });
  store.expect(state.number, { fields, rows: far && mask(layout.count, rows), closer: closer.length ? mask(layout.count, closer) : null });
  sendWish();
}

function mask(count, rows) {
  const out = new Uint8Array(count);
  for (const row of rows) out[row] = 1;
  return out;
}

function sendWish() {
  if (state.wish && state.socket?.readyState === WebSocket.OPEN) state.socket.send(JSON.stringify({ op: "watch", number: state.number, ...JSON.parse(state.wish) }));
}

/** Connects when somebody is signed in (the header with the age of the data is there). */
export function start() {
  if (!document.getElementById("data-age")) return;
  document.addEventListener("mf:reconnect", () => connect(0));
  document.addEventListener("visibilitychange", () => !document.hidden && !state.socket && connect(0));
  addEventListener("pagehide", () => state.socket?.close());
  addEventListener("pageshow", (event) => event.persisted && connect(0));
  expectSummary();
  connect(0);
}

function connect(attempt) {
  clearTimeout(state.timer);
  forget(state.socket);
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${PATH}`);
  Object.assign(state, { socket, attempt, heardAt: performance.now() });
  store.reconnect();
  socket.addEventListener("open", sendWish);
  socket.binaryType = "arraybuffer";
  socket.addEventListener("message", ({ data }) => receive(data));
  socket.addEventListener("close", ({ code }) => lost(socket, code));
}

function forget(socket) {
  state.socket = null;
  socket?.close();
}

function lost(socket, code) {
  if (socket !== state.socket) return;
  state.socket = null;
  tellAge();
  if (code === SIGN_IN) return location.reload(); // the sign-in page knows where to come back to
  state.timer = setTimeout(() => connect(state.attempt + 1), waitMs(state.attempt));
}

function receive(data) {
  state.heardAt = performance.now();
  state.attempt = 0;
  received.bytes += data.byteLength ?? data.length;
  if (typeof data !== "string") {
    received.frames += 1;
    return show(decode(data), data);
  }
  const message = JSON.parse(data);
  if (message.type === "summary") {
    state.ageS = message.age_s;
    expectSummary();
    tellReceived();
  }
  tell(`mf:${message.type}`, message);
}

function show(frame, bytes) {
  const outcome = store.apply(frame), { detail } = frame;
  if (outcome === "ok") return tell("mf:cells", { store, detail, delta: frame.kind === "delta" ? bytes : null, layout: false });
  if (outcome === "gap") return state.socket.send(SNAPSHOT);
  if (outcome === "old") return;
  if (frame.kind === "snapshot") state.waiting = frame; // until we know what its rows are
  if (state.wanted !== frame.epoch) fetchLayout(frame.epoch);
}

async function fetchLayout(epoch) {
  state.wanted = epoch;
  try {
    const answer = await fetch(LAYOUT);
    if (!answer.ok) throw new Error(`${LAYOUT}: ${answer.status}`);
    store.use(new Layout(await answer.json()));
  } catch {
    setTimeout(() => { state.wanted = null; }, 2000); // the next frame asks again
    return;
  }
  state.wanted = null;
  if (state.waiting && store.apply(state.waiting) !== "ok") state.socket?.send(SNAPSHOT);
  state.waiting = null;
  tell("mf:cells", { store, layout: true });
}

/** The age is told with each summary, and without where none comes: a timer of its own would wake the page once more each second. */
function expectSummary() {
  clearTimeout(state.quiet);
  state.quiet = setTimeout(() => { expectSummary(); tellAge(); tellReceived(); }, QUIET_MS);
}

function tellAge() {
  const silentMs = performance.now() - state.heardAt, connected = state.socket?.readyState === WebSocket.OPEN;
  if (connected && silentMs > SILENCE_MS) connect(0); // open in name only
  tell("mf:live", { connected, age_s: state.ageS == null ? null : state.ageS + silentMs / 1000 });
}

function tellReceived() {
  const now = performance.now(), ms = now - received.since;
  if (ms < received.untilMs) return;
  tell("mf:feed", { bytes_s: received.bytes * 1000 / ms, frames_s: received.frames * 1000 / ms });
  Object.assign(received, { bytes: 0, frames: 0, since: now, untilMs: TOLD_MS });
}

function tell(name, detail) {
  document.dispatchEvent(new CustomEvent(name, { detail }));
}
