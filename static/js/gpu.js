// The page of one GPU: its signals and charts follow the live feed; what people change is read again by htmx.
import { lineChart } from "./charts/line.js";
import { age, quantity } from "./figures.js";
import { el, state as stateWord } from "./kit.js";
import { meter } from "./meter.js";

const ASK_EVERY_MS = 900, REFRESH_AFTER_MS = 250, STEP_S = 30, GIB = 2 ** 30;

/** Starts on the page's grid: <div data-module="gpu" data-live="…" data-series="…">. */
export async function mount(page) {
  const known = JSON.parse(page.querySelector("#gpu-data").textContent);
  const gpu = new GpuPage(page, known);
  document.addEventListener("mf:summary", () => gpu.ask());
  document.addEventListener("mf:event", ({ detail }) => gpu.onEvent(detail));
  await gpu.readSeries();
}

class GpuPage {
  constructor(page, { gpu, node, scales, card_bytes: cardBytes }) {
    Object.assign(this, { page, gpu, node, scales, cardBytes, charts: new Map(), askedAt: 0, timer: 0 });
    this.numbers = page.querySelector('[data-part="numbers"]');
    this.numbers.addEventListener("toggle", () => this.drawNumbers());
  }

  part(name) { return document.querySelector(`[data-part="${name}"]`); }

  // ---- charts ----

  async readSeries() {
    const answer = await fetch(this.page.dataset.series).catch(() => null);
    if (!answer?.ok) return;
    this.series = await answer.json();
    for (const node of this.page.querySelectorAll("[data-chart]")) {
      const options = this.series.charts[node.dataset.chart];
      if (this.charts.has(node.dataset.chart)) this.charts.get(node.dataset.chart).set(options);
      else this.charts.set(node.dataset.chart, lineChart(node, options));
    }
    this.part("since").textContent = this.series.from ? `as this web process saw them, since ${clock(this.series.from)} UTC` : "";
    this.drawNumbers();
  }

  append(live) {
    const at = Date.now() / 1000, values = Object.fromEntries(live.signals.map(({ signal, value }) => [signal, value])), { online_memory_bytes: online } = live.values;
    const fresh = live.silence === "";
    this.charts.get("p99")?.append(at, [fresh ? values.online_p99 : null]);
    this.charts.get("sm")?.append(at, fresh ? [values.sm_activity, live.values.sm_online_percent] : [null, null]);
    this.charts.get("memory")?.append(at, fresh ? [values.memory, online == null ? null : online / GIB] : [null, null]);
  }

  /** The table twin: one line every STEP_S seconds, read off the charts' own data. */
  drawNumbers() {
    if (!this.numbers.open || !this.series) return;
    const { p99, sm, memory } = this.series.charts, rows = [];
    let next = Infinity;
    for (let i = p99.x.length - 1; i >= 0; i -= 1) {
      if (p99.x[i] > next) continue;
      next = p99.x[i] - STEP_S;
      const cells = [[p99.series[0], "ms", 0], [sm.series[0], "%", 0], [sm.series[1], "%", 0], [memory.series[0], "GiB", 1], [memory.series[1], "GiB", 1]];
      rows.push(el("tr", {}, el("td", { class: "tn" }, clock(p99.x[i])), ...cells.map(([one, unit, digits]) => el("td", { class: one.values[i] == null ? "num none" : "num" }, quantity(one.values[i], unit, digits)))));
    }
    this.numbers.querySelector("tbody").replaceChildren(...rows);
  }

  // ---- live values ----

  async ask() {
    const now = performance.now();
    if (document.hidden || now - this.askedAt < ASK_EVERY_MS) return;
    this.askedAt = now;
    const answer = await fetch(this.page.dataset.live).catch(() => null);
    if (answer?.ok) this.show(await answer.json());
  }

  show(live) {
    for (const signal of live.signals) this.showSignal(signal, live.silence !== "");
    this.showHead(live);
    this.put("age", live.age_s == null ? quantity(null) : age(live.age_s));
    const online = live.online;
    if (online) {
      const p99 = quantity(online.p99_ms, "ms");
      this.part("p99")?.replaceChildren(...(online.over_slo ? [stateWord("OVERLIMIT", { word: "over the SLO" }), ` ${p99}`] : [p99]));
      this.put("qps", quantity(online.qps, "QPS"));
    }
    if (live.guest) this.part("duty")?.replaceChildren(el("b", {}, quantity(live.guest.duty_percent, "%")));
    this.append(live);
    if (this.wasState && this.wasState !== live.state) this.changed();
    this.wasState = live.state;
  }

  showHead(live) {
    this.part("state")?.replaceChildren(stateWord(live.state, { tag: true }));
    this.put("why", live.silence || live.why);
    const nearest = live.signals.find(({ signal }) => signal === live.nearest_signal);
    this.put("nearest", nearest ? `${nearest.name}, ${nearest.headroom} away` : quantity(null));
  }

  showSignal({ signal, value, unit, digits, headroom }, silent) {
    const row = this.page.querySelector(`[data-signal="${signal}"]`), scale = this.scales[signal], [, number, bar, left] = row.children;
    number.replaceChildren(el("b", { class: value == null ? "none" : null }, quantity(value, unit, digits)));
    row.classList.toggle("faint", silent);
    meter(value, scale, bar.firstElementChild);
    left.textContent = headroom;
  }

  put(name, text) {
    const node = this.part(name);
    if (node && node.textContent !== text) node.textContent = text;
  }

  // ---- changes ----

  onEvent({ op, gpu, node }) {
    if (op === "evictions" || (op === "gpu" && gpu === this.gpu) || (op === "node" && node === this.node) || op === "nodes" || op === "gpus") this.changed();
  }

  /** Has htmx read the parts again, and the charts their marks; many changes at once count as one. */
  changed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      document.body.dispatchEvent(new CustomEvent("gpu-changed"));
      this.readSeries();
    }, REFRESH_AFTER_MS);
  }
}

const clock = (t) => new Date(t * 1000).toISOString().slice(11, 19);
