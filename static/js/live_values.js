// Keeps times and figures on the page current without moving anything: <time data-ago>, <time data-until>, [data-live].
import { NO_DATA, age, countdown, quantity, signed, size } from "./figures.js";
import { eachSecond, heed } from "./socket.js";

const FORMATS = { number: quantity, signed: (value, unit, digits) => signed(value, unit, digits), size: (value, _unit, digits) => size(value, digits) };

export function start() {
  const times = document.getElementsByTagName("time"); // which the browser keeps at hand
  eachSecond(() => { if (times.length > 0) tick(times); });
  document.addEventListener("mf:summary", ({ detail }) => show(detail));
  document.addEventListener("htmx:load", () => { known = new WeakMap(); heedShown(); });
  heedShown();
}

const heedShown = () => heed(named(document, WHOLE_FLEET, "live").map(({ path }) => path.split(".", 1)[0]));

function tick(times) {
  const now = Date.now();
  for (const time of times) {
    if (!time.matches("[data-ago], [data-until]")) continue;
    const past = (now - Date.parse(time.dateTime)) / 1000;
    put(time, time.hasAttribute("data-ago") ? age(past) : countdown(-past));
  }
}

/** The summary tells of the whole fleet: what stands under [data-scoped] is about a part of it, and left alone. */
const WHOLE_FLEET = "[data-live]:not([data-scoped] *)";

/** Writes each value of `values` into the elements that name it: data-live="states.HEALTHY" data-unit="%" data-digits="1". */
export function show(values, root = document, selector = WHOLE_FLEET) {
  for (const { node, path } of named(root, selector, "live")) {
    const value = pick(values, path);
    if (value === undefined || written.get(node) === value) continue;
    written.set(node, value);
    write(node, value);
  }
  for (const { node, path } of named(root, "[data-live-reveal]", "liveReveal")) {
    if (node.hidden && pick(values, path) !== undefined) node.hidden = false; // words that make no sense without their number
  }
}

const written = new WeakMap(); // the value that each element shows

function write(node, value) {
  const { unit = "", digits = 0, format = "number" } = node.dataset;
  const text = typeof value === "string" ? value : FORMATS[format](value, unit, Number(digits));
  put(node, text);
  node.classList.toggle("none", text === NO_DATA);
  if (node.hasAttribute("data-hide-zero")) node.hidden = !value;
}

let known = new WeakMap(); // by root and selector, until htmx brings other parts: to search the page every second is most of the work

/** [{ node, path }] of the elements under `root` that a selector finds, and the path that each has in `data-…`. */
function named(root, selector, key) {
  if (!known.has(root)) known.set(root, new Map());
  const lists = known.get(root);
  if (!lists.has(selector)) lists.set(selector, Array.from(root.querySelectorAll(selector), (node) => ({ node, path: node.dataset[key] })));
  return lists.get(selector);
}

/** The value at a dotted path; undefined when there is none. */
export function pick(values, path) {
  return path.split(".").reduce((at, key) => at?.[key], values);
}

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
