// Keeps times and figures on the page current without moving anything: <time data-ago>, <time data-until>, [data-live].
import { NO_DATA, age, countdown, quantity, signed, size } from "./figures.js";

const FORMATS = { number: quantity, signed: (value, unit, digits) => signed(value, unit, digits), size: (value, _unit, digits) => size(value, digits) };

export function start() {
  document.addEventListener("mf:live", tick);
  document.addEventListener("mf:summary", ({ detail }) => show(detail));
}

function tick() {
  const now = Date.now();
  for (const time of document.getElementsByTagName("time")) { // which the browser keeps at hand
    if (!time.matches("[data-ago], [data-until]")) continue;
    const past = (now - Date.parse(time.dateTime)) / 1000;
    put(time, time.hasAttribute("data-ago") ? age(past) : countdown(-past));
  }
}

/** The summary tells of the whole fleet: what stands under [data-scoped] is about a part of it, and left alone. */
const WHOLE_FLEET = "[data-live]:not([data-scoped] *)";

/** Writes each value of `values` into the elements that name it: data-live="states.HEALTHY" data-unit="%" data-digits="1". */
export function show(values, root = document, selector = WHOLE_FLEET) {
  for (const node of root.querySelectorAll(selector)) {
    const value = pick(values, node.dataset.live);
    if (value === undefined) continue;
    const { unit = "", digits = 0, format = "number" } = node.dataset;
    const text = typeof value === "string" ? value : FORMATS[format](value, unit, Number(digits));
    put(node, text);
    node.classList.toggle("none", text === NO_DATA);
    if (node.hasAttribute("data-hide-zero")) node.hidden = !value;
  }
  for (const node of root.querySelectorAll("[data-live-reveal]")) {
    if (pick(values, node.dataset.liveReveal) !== undefined) node.hidden = false; // words that make no sense without their number
  }
}

/** The value at a dotted path; undefined when there is none. */
export function pick(values, path) {
  return path.split(".").reduce((at, key) => at?.[key], values);
}

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
