// The one connection of a tab to the live feed, and the store that it fills. Runs in the page, or in the worker that paints its map; knows neither.
import { Layout } from "./store.js";
import { decode } from "./wire.js";

const PATH = "/ws/live/", LAYOUT = "/live/layout.json", SIGN_IN = 4401;
const SNAPSHOT = JSON.stringify({ op: "snapshot" });
const FIRST_WAIT_MS = 500, LONGEST_WAIT_MS = 10_000, LAYOUT_WAIT_MS = 2_000;

/** How long to wait before try number `attempt` (0, 1, …): doubling, jittered, so that tabs do not all come back at once. */
export function waitMs(attempt, random = Math.random()) {
  return Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt) * (0.5 + random / 2);
}

export class Feed {
  /**
   * `tell(name, …)` is called with
   *   connection  whether it stands
   *   signedOut   it was refused: somebody has to sign in
   *   cells       "gpus" | "nodes" whose values changed; in each second before its summary
   *   second      the age of the data, the fleet in numbers, and the bytes and frames received since the second before
   *   event       { op, … }: somebody changed something
   *   layout      the document of another fleet, which the store holds from now on
   */
  constructor(store, tell) {
    Object.assign(this, { store, tell, socket: null, attempt: 0, timer: 0, wanted: null, waiting: null, wish: null, received: { bytes: 0, frames: 0 } });
  }

  connect(attempt = 0) {
    clearTimeout(this.timer);
    this.forget();
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${PATH}`);
    Object.assign(this, { socket, attempt });
    this.store.reconnect();
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => { this.tell("connection", true); this.sendWish(); });
    socket.addEventListener("message", ({ data }) => this.receive(data));
    socket.addEventListener("close", ({ code }) => this.lost(socket, code));
  }

  forget() {
    const { socket } = this;
    if (!socket) return;
    this.socket = null;
    socket.close();
    this.tell("connection", false);
  }

  /** Connects where nothing does. */
  wake() { if (!this.socket) this.connect(); }

  /** The page is left, maybe to come back. */
  leave() { this.socket?.close(); }

  lost(socket, code) {
    if (socket !== this.socket) return;
    this.socket = null;
    this.tell("connection", false);
    if (code === SIGN_IN) return this.tell("signedOut");
    this.timer = setTimeout(() => this.connect(this.attempt + 1), waitMs(this.attempt));
  }

  /** From now on the page draws `wish` (as the feed takes it), of which the store knows by `watch`. */
  watch(number, wish, watch) {
    this.store.expect(number, watch);
    this.wish = { op: "watch", number, ...wish };
    this.sendWish();
  }

  sendWish() {
    if (this.wish && this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(this.wish));
  }

  // ---- what a page whose feed is elsewhere has to ask for: here all is known ----

  follow() {}
  heed() {}
  read() {}

  // ---- what comes ----

  receive(data) {
    this.attempt = 0;
    this.received.bytes += data.byteLength ?? data.length;
    if (typeof data === "string") return this.pass(JSON.parse(data));
    this.received.frames += 1;
    this.take(decode(data));
  }

  pass(message) {
    if (message.type !== "summary") return this.tell(message.type, message);
    const { received } = this;
    this.received = { bytes: 0, frames: 0 };
    this.tell("second", message.age_s, message, received.bytes, received.frames);
  }

  take(frame) {
    const outcome = this.store.apply(frame);
    if (outcome === "ok") return this.tell("cells", frame.detail);
    if (outcome === "gap") return this.socket.send(SNAPSHOT);
    if (outcome === "old") return;
    if (frame.kind === "snapshot") this.waiting = frame; // until we know what its rows are
    if (this.wanted !== frame.epoch) this.fetchLayout(frame.epoch);
  }

  async fetchLayout(epoch) {
    this.wanted = epoch;
    const document = await layout().catch(() => null);
    if (document === null) return setTimeout(() => { this.wanted = null; }, LAYOUT_WAIT_MS); // the next frame asks again
    this.store.use(new Layout(document));
    this.wanted = null;
    if (this.waiting && this.store.apply(this.waiting) !== "ok") this.socket?.send(SNAPSHOT);
    this.waiting = null;
    this.tell("layout", document);
  }
}

async function layout() {
  const answer = await fetch(LAYOUT);
  if (!answer.ok) throw new Error(`${LAYOUT}: ${answer.status}`);
  return answer.json();
}
