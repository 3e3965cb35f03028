// The page's end of the worker that hears the feed and paints the map (heatmap/worker.js). It wakes the page with one message a second.
import { Layout, NONE_FOLLOWED } from "./store.js";

const STARTS_WITHIN_MS = 5_000, ANSWERS_WITHIN_MS = 5_000;
const LOST = "mf-worker-lost", AVOIDED_MS = 600_000;

/** Whether a worker of this tab was lost lately. */
const isAvoided = () => Date.now() - Number(sessionStorage.getItem(LOST)) < AVOIDED_MS;

/**
 * The worker once it runs, with the methods of a Feed; null where there can be none, or one was lost lately. `hear` is told what a Feed tells, and
 *   lost    that the worker is silent: a page that loads anew is without one
 */
export async function remoteOf(store, hear) {
  if (isAvoided() || !globalThis.Worker || !globalThis.HTMLCanvasElement?.prototype.transferControlToOffscreen || !import.meta.resolve) return null;
  const worker = new Worker(import.meta.resolve("./heatmap/worker.js"), { type: "module", name: "map" });
  const runs = await new Promise((tell) => {
    worker.addEventListener("message", () => tell(true), { once: true });
    worker.addEventListener("error", () => tell(false), { once: true });
    setTimeout(tell, STARTS_WITHIN_MS, false);
  });
  if (runs) return new Remote(worker, store, hear);
  worker.terminate();
  return null;
}

export class Remote {
  /** `counts`: who is told how many rows are how, by the number of the painter that counted them. */
  constructor(worker, store, hear) {
    Object.assign(this, { worker, store, hear, followed: NONE_FOLLOWED, waiting: [], counts: new Map(), doubt: 0 });
    worker.addEventListener("message", ({ data }) => this.take(data));
    store.use(store.layout, true);
  }

  connect() {
    clearTimeout(this.doubt);
    this.doubt = setTimeout(() => this.lose(), ANSWERS_WITHIN_MS);
    this.worker.postMessage(["connect"]);
  }

  wake() { this.worker.postMessage(["wake"]); }
  leave() { this.worker.postMessage(["leave"]); }

  watch(number, wish, watch) {
    this.store.expect(number, watch);
    this.worker.postMessage(["watch", number, wish, watch]);
  }

  follow(detail, rows) {
    const { followed } = this;
    if (detail === followed.detail && rows.length === followed.rows.length && rows.every((row, i) => row === followed.rows[i])) return;
    this.store[followed.detail].know(detail === followed.detail ? rows.filter((row) => this.store[detail].isKnown(row)) : []);
    this.followed = { number: followed.number + 1, detail, rows };
    this.worker.postMessage(["follow", this.store.layout.epoch, this.followed]);
  }

  heed(keys) { this.worker.postMessage(["heed", keys]); }

  read(columns) {
    const answered = new Promise((done) => { this.waiting.push({ columns, done }); });
    this.worker.postMessage(["read", this.store.layout.epoch, columns]);
    return answered;
  }

  // ---- what the worker tells ----

  take(news) {
    const [name, ...given] = news;
    if (name in TAKES) TAKES[name](this, ...given);
    else this.hear(name, ...given);
  }

  /** It hangs, or was ended: its canvases cannot be had back. */
  lose() {
    sessionStorage.setItem(LOST, Date.now());
    this.hear("lost");
  }
}

const TAKES = {
  alive({ doubt }) { clearTimeout(doubt); },

  second(remote, ageS, summary, bytes, frames, counts, cells) {
    for (let i = 0; i < counts?.length; i += 2) remote.counts.get(counts[i])?.(counts[i + 1]);
    if (cells !== null) TAKES.cells(remote, ...cells);
    remote.hear("second", ageS, summary, bytes, frames);
  },

  layout(remote, document) {
    remote.store.use(new Layout(document), true);
    remote.followed = { ...NONE_FOLLOWED, number: remote.followed.number + 1 };
    remote.hear("layout");
  },

  /** `bytes` of the rows of the follow of this number, if they are of this detail. */
  cells({ store, followed, hear }, detail, watch, number, bytes) {
    const rows = store[detail];
    if (rows.watch?.number !== watch) rows.watch = store.watchOf(watch);
    if (bytes && number === followed.number) rows.put(followed.rows, bytes);
    hear("cells", detail);
  },

  counts({ counts }, painter, told) { counts.get(painter)?.(told); },

  /** Of the oldest question; null where that was about another fleet. */
  answer({ store, waiting }, answers) {
    const { columns, done } = waiting.shift();
    if (answers === null) return;
    columns.forEach((column, i) => store.gpus.columns[column].set(answers[i]));
    done();
  },
};
