// The Overview: three charts and their words, read again every few seconds; state bar and figures from the live summary.
import { lineChart } from "./charts/line.js";
import { signed } from "./figures.js";
import { show } from "./live_values.js";
import { heed } from "./socket.js";

export function mount(element) {
  const first = JSON.parse(element.querySelector("#overview-data").textContent);
  const charts = new Map();
  for (const node of element.querySelectorAll("[data-chart]")) charts.set(node.dataset.chart, lineChart(node, first.charts[node.dataset.chart]));
  const { source, poll } = element.dataset, state = { before: first.before };
  setInterval(() => document.hidden || read(source, charts, element, state), Number(poll) * 1000);
  if (!element.hasAttribute("data-scoped")) {
    document.addEventListener("mf:summary", ({ detail }) => onSummary(detail, element, state));
    heed(["sm_activity", "p99_ratio", "live", "states"]);
  }
  document.addEventListener("mf:event", ({ detail }) => onEvent(detail));
}

async function read(source, charts, element, state) {
  const answer = await fetch(source).catch(() => null);
  if (!answer?.ok) return; // the header says that data is old; the charts keep what they have
  const { charts: options, words, before, now } = await answer.json();
  state.before = before;
  for (const [name, chart] of charts) chart.set(options[name]);
  show({ ...words, ...now, ...(state.live && gains(state.live, before)) }, element, "[data-live]");
  if (now.states) drawBar(element.querySelector("svg.statebar"), now.states);
}

function onSummary(summary, element, state) {
  const ratio = summary.p99_ratio;
  state.live = { sm_activity: summary.sm_activity, p99_percent: ratio == null ? null : ratio * 100 };
  show({ p99_percent: state.live.p99_percent, reporting: summary.live, ...gains(state.live, state.before) }, element);
  if (summary.states) drawBar(element.querySelector("svg.statebar"), summary.states);
}

/** How far the figures that are shown are from what was before sharing, so that the three always fit. */
export function gains(live, before) {
  const gain = (name) => (live[name] == null || before[name] == null ? "" : signed(live[name] - before[name], "points"));
  return { sm_gain: gain("sm_activity"), p99_gain: gain("p99_percent") };
}

/** Widths of the state bar: shares of 1000, each state that occurs visible. */
export function barWidths(counts, least = 6) {
  const shown = Object.entries(counts).filter(([, count]) => count > 0), total = shown.reduce((sum, [, count]) => sum + count, 0);
  const wide = shown.map(([name, count]) => [name, Math.max((count / total) * 1000, least)]);
  const scale = 1000 / wide.reduce((sum, [, width]) => sum + width, 0);
  return Object.fromEntries(wide.map(([name, width]) => [name, width * scale]));
}

function drawBar(bar, counts) {
  const widths = barWidths(counts);
  let x = 0;
  for (const rect of bar?.querySelectorAll("rect") ?? []) {
    const width = widths[rect.dataset.state] ?? 0;
    rect.setAttribute("x", x.toFixed(1));
    rect.setAttribute("width", Math.max(width - 2, 0).toFixed(1));
    x += width;
  }
}

// Which part of the page htmx reads again when somebody changed something.
const PARTS = { evictions: "mf-changed", node: "mf-changed", gpu: "mf-changed", rounds: "mf-rounds", sharing: "mf-sharing" };

function onEvent({ op }) {
  if (op in PARTS) document.body.dispatchEvent(new CustomEvent(PARTS[op]));
}
