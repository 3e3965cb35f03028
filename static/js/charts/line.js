// Line charts in our ink, over uPlot; the only importer of it.
//
// Options (also the JSON that data-source names, a script element "#id" or a URL):
//   x            times, seconds, ascending
//   series       [{label, values (null: missing), look: "main" | "ghost" | "forecast" | "earlier" | "faint", fill}]
//   unit, digits, range: [low, high] (high null: from the data)
//   marks        [{at, label, look: "mark" | "warn", side: "left"}]   what people or the agent did
//   thresholds   [{at, label, look: "slo" | "limit" | "warn", from, to}]       from and to: only this long
//   shaded       [{from, to, label}] (null: the end of the axis)      before, or forecast
//   bands        [[low, high], …]                                     indexes of series, the ground between them
//   now          a dotted line at this time
//   from, to     the ends of the time axis; without them it holds the data
//   window_s     append() keeps this much, and the axis shows it
//   time_axis    false: without the times below it
//   axis_px      width of the axis of values, so that charts below each other have one axis of time
//   gap_s        samples further apart are not joined
//   empty        what to say when there are no samples
import uPlot from "uplot";
import { quantity } from "../figures.js";
import { colour, el, onTheme } from "../kit.js";
import { axisWord, exactTime, extent, freeRow, keepWindow, lonePoints, timeTicks, timeWord, valueTicks, withGaps } from "./ticks.js";

const FONT = '"Inter Variable", Inter, sans-serif';
const LOOKS = {
  main: { stroke: "--ch-main", width: 1.7 },
  ghost: { stroke: "--ch-ghost", width: 1.3 },
  forecast: { stroke: "--ch-ghost", width: 1.6, dash: [5, 4] },
  earlier: { stroke: "--ch-ghost", width: 1.1, dash: [2, 3] },
  outcome: { stroke: "--ch-main", width: 1.6, dash: [5, 4] },
  faint: { stroke: "--ch-grid", width: 1 },
};
const LONE_S = 30; // on both sides of the only sample there is
const INKS = { slo: "--ch-main", limit: "--ch-limit", warn: "--ch-warn", mark: "--ch-mark", ghost: "--mf-ink-3" };

/** Starts a chart on an element that says where its data is: data-source, [data-poll] in seconds. */
export async function mount(element) {
  const { source, poll } = element.dataset;
  const chart = lineChart(element, await read(source));
  if (!poll) return;
  const timer = setInterval(() => {
    if (!element.isConnected) { clearInterval(timer); chart.destroy(); }
    else if (!document.hidden) read(source).then(chart.set, () => {}); // the chart keeps what it has; the header tells that data is old
  }, Number(poll) * 1000);
}

async function read(source) {
  if (source.startsWith("#")) return JSON.parse(document.querySelector(source).textContent);
  const answer = await fetch(source);
  if (!answer.ok) throw new Error(`${source}: ${answer.status}`);
  return answer.json();
}

/** Draws `options` into `element`, in its size. Returns { append, set, destroy }. */
export function lineChart(element, options) {
  const state = { options, plot: null };
  const tip = el("div", { class: "ch-tip", hidden: true }), empty = el("p", { class: "ch-empty" });
  const rebuild = () => { state.plot?.destroy(); state.plot = draw(element, state, tip, empty); };
  const refresh = () => (state.plot && extent(values(state.options)) ? state.plot.setData(data(state.options)) : rebuild());
  const resized = new ResizeObserver(() => state.plot?.setSize({ width: element.clientWidth, height: element.clientHeight }));
  document.fonts.load(`500 12px ${FONT}`).then(rebuild, rebuild);
  resized.observe(element);
  const stopTheme = onTheme(rebuild);
  element.tabIndex = 0;
  element.addEventListener("keydown", (event) => step(event, state.plot));
  element.addEventListener("blur", () => state.plot?.setCursor({ left: -10, top: -10 }));
  return {
    /** New options; with as many series as before only the lines move, and a value that is being read stays. */
    set(next) {
      const before = state.options.series.length;
      state.options = { ...state.options, ...next };
      before === state.options.series.length ? refresh() : rebuild();
    },
    /** One more point at the right end: a value per series. */
    append(t, sample) {
      const { x, series, window_s: windowS } = state.options;
      if (x.length && t <= x.at(-1)) return;
      x.push(t);
      series.forEach((one, i) => one.values.push(sample[i] ?? null));
      if (windowS) keepWindow(x, values(state.options), windowS);
      refresh();
    },
    destroy() { resized.disconnect(); stopTheme(); state.plot?.destroy(); tip.remove(); empty.remove(); },
  };
}

const values = ({ series }) => series.map((one) => one.values);
const data = (options) => withGaps(options.x, values(options), options.gap_s);

/** A new plot; it reads `state.options` each time it draws. Null, and the words for it, when there is nothing to draw. */
function draw(element, state, tip, empty) {
  const { options } = state;
  empty.textContent = options.empty ?? "No samples yet";
  if (!extent(values(options))) { element.replaceChildren(empty); return null; }
  const common = { stroke: colour("--mf-ink-3"), font: `400 11px ${FONT}`, ticks: { show: false } };
  element.replaceChildren(tip);
  return new uPlot({
    width: element.clientWidth, height: element.clientHeight, padding: [8, 8, options.time_axis === false ? 6 : 0, 0],
    legend: { show: false }, cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    tzDate: (t) => uPlot.tzDate(new Date(t * 1000), "Etc/UTC"),
    scales: { x: { time: true, range: () => spanOf(state.options) }, y: { range: () => axisRange(state.options) } },
    axes: [
      { ...common, show: options.time_axis !== false, size: 22, gap: 4, grid: { show: false }, splits: wholeTicks, values: (u, all) => all.map((t) => timeWord(t, u.scales.x.max - u.scales.x.min, all[1] - all[0])) },
      { ...common, size: () => axisWidth(state.options), gap: 6, grid: { stroke: colour("--ch-grid"), width: 1 }, splits: () => axisTicks(state.options), values: (_u, all) => all.map((value) => axisWord(value, state.options.unit)) },
    ],
    series: [{}, ...options.series.map(seriesOf)],
    bands: (options.bands ?? []).map(([low, high]) => ({ series: [high + 1, low + 1], fill: colour("--ch-area") })),
    hooks: { drawClear: [(u) => under(u, state.options)], draw: [(u) => over(u, state.options)], setCursor: [(u) => hover(u, state.options, tip)] },
  }, data(options), element);
}

/** The window that is shown: as the options say, so that live points do not stretch it; what is young begins with a quarter of it. */
function spanOf({ x, window_s: windowS, from, to }) {
  const low = x[0], high = x.at(-1), end = to ?? high;
  if (from != null) return [from, end];
  if (windowS) return [Math.max(end - windowS, Math.min(low, end - windowS / 4)), end];
  return high > low ? [low, high] : [low - LONE_S, low + LONE_S];
}

/** Ticks whose words fit: one at the very end would be cut off. */
function wholeTicks(u) {
  const { min, max } = u.scales.x, halfWord = (24 * (max - min)) / u.width;
  return timeTicks(min, max - halfWord, u.width / 76);
}

function axisTicks(options) {
  const [dataLow, dataHigh] = extent([...values(options), (options.thresholds ?? []).map((one) => one.at)]) ?? [0, 1];
  const [low, high] = [options.range?.[0] ?? dataLow, options.range?.[1] ?? dataHigh * 1.08];
  const top = Math.max(high, dataHigh);
  return valueTicks(low, top - low > 1e-6 ? top : low + 1); // a flat line keeps an axis of round numbers
}

function axisRange(options) {
  const ticks = axisTicks(options);
  return [ticks[0], ticks.at(-1)];
}

function axisWidth(options) {
  if (options.axis_px) return options.axis_px;
  const widest = Math.max(...axisTicks(options).map((value) => axisWord(value, options.unit).length));
  return Math.max(26, 8 + widest * 6.6);
}

function seriesOf({ look = "main", fill }) {
  const { stroke, width, dash } = LOOKS[look];
  const points = { show: false, filter: (u, column) => lonePoints(u.data[column]), size: 2 * width + 2, width: 0, fill: colour(stroke) };
  return { stroke: colour(stroke), width, dash, fill: fill ? colour("--ch-area") : undefined, points, spanGaps: false };
}

// ---- what lies under and over the lines ----

function under(u, { shaded = [], now }) {
  const c = u.ctx, { left, top, width, height } = u.bbox, d = devicePixelRatio;
  c.save();
  for (const zone of shaded) {
    const a = clamp(u.valToPos(zone.from ?? u.scales.x.min, "x", true), left, left + width), b = clamp(u.valToPos(zone.to ?? u.scales.x.max, "x", true), left, left + width);
    c.fillStyle = colour("--mf-hover");
    c.fillRect(a, top, b - a, height);
    if (zone.label && b - a > 60 * d) text(c, zone.label, a + 5 * d, top + height - 9 * d, "--mf-ink-3", "left", 10);
  }
  if (now) vertical(c, Math.round(u.valToPos(now, "x", true)), top, height, "--mf-ink-3", 1, [2, 2]);
  c.restore();
}

function over(u, { thresholds = [], marks = [] }) {
  const c = u.ctx, { left, top, width, height } = u.bbox, d = devicePixelRatio;
  c.save();
  const rows = [[], [], []]; // plates that are drawn, by row: one that finds no room is left out, its line stays
  const middle = (row) => top + (7 + 15 * row) * d;
  for (const one of thresholds) {
    const y = Math.round(u.valToPos(one.at, "y", true)), ink = INKS[one.look ?? "limit"];
    if (y < top - 1 || y > top + height + 1) continue;
    const [a, b] = [one.from, one.to].map((t, i) => (t == null ? left + i * width : clamp(u.valToPos(t, "x", true), left, left + width)));
    line(c, a, y, b, y, ink, 1.25, [5, 3]);
    if (!one.label) continue;
    const isLeft = one.side === "left", at = isLeft ? left + 4 * d : left + width - 4 * d, beside = y < top + 16 * d ? y + 9 * d : y - 8 * d;
    plate(c, one.label, at, beside, ink, isLeft ? "left" : "right");
    rows.forEach((taken, row) => { if (Math.abs(beside - middle(row)) < 14 * d) taken.push(reach(c, one.label, at, !isLeft)); });
  }
  for (const mark of marks) {
    const x = Math.round(u.valToPos(mark.at, "x", true)), ink = INKS[mark.look ?? "mark"];
    if (x < left || x > left + width) continue;
    vertical(c, x, top, height, ink, 1.5);
    const leftward = mark.side === "left" || x > left + width * 0.72 || reach(c, mark.label ?? "", x + 5 * d)[1] > left + width;
    const at = x + (leftward ? -5 : 5) * d, row = mark.label ? freeRow(rows, ...reach(c, mark.label, at, leftward)) : -1;
    if (row >= 0) plate(c, mark.label, at, middle(row), ink, leftward ? "right" : "left");
  }
  c.restore();
}

/** From where to where a plate with these words would lie. */
function reach(c, words, x, leftward) {
  c.font = `500 ${11 * devicePixelRatio}px ${FONT}`;
  const width = c.measureText(words).width;
  return leftward ? [x - width, x] : [x, x + width];
}

const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

function vertical(c, x, top, height, ink, width, dash = []) {
  line(c, x, top, x, top + height, ink, width, dash);
}

function line(c, x1, y1, x2, y2, ink, width, dash) {
  const d = devicePixelRatio;
  c.strokeStyle = colour(ink);
  c.lineWidth = width * d;
  c.setLineDash(dash.map((part) => part * d));
  c.beginPath();
  c.moveTo(x1, y1);
  c.lineTo(x2, y2);
  c.stroke();
  c.setLineDash([]);
}

/** Words on a plate of the card's own colour, so that a line behind them does not cross them. */
function plate(c, words, x, y, ink, align) {
  const d = devicePixelRatio;
  c.font = `500 ${11 * d}px ${FONT}`;
  const width = c.measureText(words).width;
  c.globalAlpha = 0.82;
  c.fillStyle = colour("--mf-surface");
  c.fillRect((align === "right" ? x - width : x) - 2 * d, y - 7 * d, width + 4 * d, 14 * d);
  c.globalAlpha = 1;
  text(c, words, x, y, ink, align, 11, 500);
}

function text(c, words, x, y, ink, align, size, weight = 400) {
  c.font = `${weight} ${size * devicePixelRatio}px ${FONT}`;
  c.textAlign = align;
  c.textBaseline = "middle";
  c.fillStyle = colour(ink);
  c.fillText(words, x, y);
}

// ---- reading values: pointer and arrow keys ----

function hover(u, { series, unit, digits = 1 }, tip) {
  const { idx, left } = u.cursor;
  tip.hidden = idx == null || left < 0;
  if (tip.hidden) return;
  const parts = series.flatMap(({ label, look }, i) => (look === "faint" || u.data[i + 1][idx] == null ? [] : [" ", series.length > 1 ? `${label} ` : "", el("b", {}, quantity(u.data[i + 1][idx], unit, digits))]));
  tip.replaceChildren(exactTime(u.data[0][idx]), ...(parts.length ? parts : [" no data"]));
  const x = left + u.bbox.left / devicePixelRatio, room = u.width - tip.offsetWidth;
  tip.style.left = `${clamp(x - tip.offsetWidth / 2, 0, Math.max(0, room))}px`;
}

function step(event, plot) {
  const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
  if (!by || !plot) return;
  event.preventDefault();
  const last = plot.data[0].length - 1, at = plot.cursor.idx ?? last;
  plot.setCursor({ left: plot.valToPos(plot.data[0][clamp(at + by, 0, last)], "x"), top: 0 });
}
