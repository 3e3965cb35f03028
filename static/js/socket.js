// The one connection of a tab to the live feed. Keeps the store, and tells the page on document:
//   mf:live     {age_s, connected}       about every second, whether something came or not
//   mf:summary  the fleet in numbers     once a second
//   mf:event    {op, …}                  somebody changed something
//   mf:cells    {store, changed, layout} rows of the store that changed; layout: it now holds another fleet
import { Store, Layout } from "./store.js";
import { decode } from "./wire.js";

const PATH = "/ws/live/", LAYOUT = "/live/layout.json", SIGN_IN = 4401;
const FIRST_WAIT_MS = 500, LONGEST_WAIT_MS = 10_000, SILENCE_MS = 8_000;

export const store = new Store();

/** How long to wait before try number `attempt` (0, 1, …): doubling, jittered, so that tabs do not all come back at once. */
export function waitMs(attempt, random = Math.random()) {
  return Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt) * (0.5 + random / 2);
}

const state = { socket: null, attempt: 0, timer: 0, heardAt: 0, ageS: null, wanted: null, waiting: null };

/** Connects when somebody is signed in (the header with the age of the data is there). */
export function start() {
  if (!document.getElementById("data-age")) return;
  document.addEventListener("mf:reconnect", () => connect(0));
  document.addEventListener("visibilitychange", () => !document.hidden && !state.socket && connect(0));
  addEventListener("pagehide", () => state.socket?.close());
  addEventListener("pageshow", (event) => event.persisted && connect(0));
  setInterval(tellAge, 1000);
  connect(0);
}

function connect(attempt) {
  clearTimeout(state.timer);
  forget(state.socket);
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${PATH}`);
  Object.assign(state, { socket, attempt, heardAt: performance.now() });
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
  Object.assign(state, { heardAt: performance.now(), attempt: 0 });
  if (typeof data !== "string") return show(decode(data));
  const { type, ...body } = JSON.parse(data);
  if (type === "summary") { state.ageS = body.age_s; tellAge(); }
  tell(`mf:${type}`, body);
}

function show(frame) {
  const outcome = store.apply(frame);
  if (outcome === "ok") return tell("mf:cells", { store, changed: store.takeDirty(), layout: false });
  if (outcome === "gap") return state.socket.send("snapshot");
  if (frame.kind === "snapshot") state.waiting = frame; // until we know what its GPUs are
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
  if (state.waiting && store.apply(state.waiting) !== "ok") state.socket?.send("snapshot");
  state.waiting = null;
  tell("mf:cells", { store, changed: store.takeDirty(), layout: true });
}

function tellAge() {
  const silentMs = performance.now() - state.heardAt, connected = state.socket?.readyState === WebSocket.OPEN;
  if (connected && silentMs > SILENCE_MS) connect(0); // open in name only
  tell("mf:live", { connected, age_s: state.ageS == null ? null : state.ageS + silentMs / 1000 });
}

function tell(name, detail) {
  document.dispatchEvent(new CustomEvent(name, { detail }));
}
