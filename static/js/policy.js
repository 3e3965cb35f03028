// The policy form: thresholds as knobs over the present values of the matching GPUs, and the review beside it.
// Without this file the form still works: numbers are typed and the server checks them.
import { quantity } from "./figures.js";
import { colour, el, glyph, onTheme } from "./kit.js";

const BINS = 70;
const HEIGHT = 48;

export function mount(form) {
  const values = JSON.parse(document.getElementById("policy-values").textContent);
  const rows = [...form.querySelectorAll(".th")].map((node) => new Row(node, values[node.dataset.signal] ?? []));
  const draw = () => { rows.forEach((row) => row.draw()); review(form, rows); };
  form.addEventListener("input", draw);
  form.addEventListener("change", draw);
  onTheme(draw);
  new ResizeObserver(draw).observe(form);
  draw();
}

/** How many values lie past a limit; with `reversed` below it. */
export function beyond(values, limit, reversed) {
  return values.filter((value) => (reversed ? value < limit : value > limit)).length;
}

/** Counts of `values` in equal bins from `low` to `high`; what lies outside goes into the end bins. */
export function bins(values, low, high, count = BINS) {
  const filled = new Array(count).fill(0);
  for (const value of values) {
    const index = Math.floor(((value - low) / (high - low)) * count);
    filled[Math.max(0, Math.min(count - 1, index))] += 1;
  }
  return filled;
}

/** The value that a knob may take: inside the axis and on its side of the other knob. */
export function clamp(value, which, { low, high, lower, upper, reversed }) {
  const gap = 1, below = (which === "lower") !== reversed;
  const least = below ? low : (reversed ? upper : lower) + gap, most = below ? (reversed ? lower : upper) - gap : high;
  return Math.round(Math.max(least, Math.min(most, value)));
}

class Row {
  constructor(node, values) {
    Object.assign(this, { node, values, low: Number(node.dataset.low), high: Number(node.dataset.high), reversed: "reversed" in node.dataset });
    this.canvas = node.querySelector("canvas");
    this.inputs = { lower: node.querySelector('[name$=".lower"]'), upper: node.querySelector('[name$=".upper"]') };
    this.name = node.querySelector("h3").textContent;
    this.knobs = { lower: this.knob("lower", "busy at", "is-busy"), upper: this.knob("upper", "evict at", "is-overloaded") };
    this.old = Object.fromEntries(["lower", "upper"].map((which) => [which, el("span", { class: "knob prev", "aria-hidden": "true" })]));
    this.canvas.parentElement.append(this.old.lower, this.old.upper, this.knobs.lower, this.knobs.upper);
  }

  value(which) { return Number(this.inputs[which].value); }

  limits() { return { low: this.low, high: this.high, lower: this.value("lower"), upper: this.value("upper"), reversed: this.reversed }; }

  at(value) { return `${Math.max(0, Math.min(1, (value - this.low) / (this.high - this.low))) * 100}%`; }

  set(which, value) {
    this.inputs[which].value = clamp(value, which, this.limits());
    this.inputs[which].dispatchEvent(new Event("input", { bubbles: true }));
  }

  knob(which, does, tone) {
    const button = el("button", { type: "button", class: `knob ${tone}`, role: "slider", "aria-label": `${this.name}, ${does}`, "aria-valuemin": this.low, "aria-valuemax": this.high });
    button.addEventListener("pointerdown", (event) => { event.preventDefault(); button.focus(); button.setPointerCapture(event.pointerId); });
    button.addEventListener("pointermove", (event) => button.hasPointerCapture(event.pointerId) && this.set(which, this.valueAt(event.clientX)));
    button.addEventListener("keydown", (event) => this.step(event, which));
    return button;
  }

  valueAt(clientX) {
    const box = this.canvas.getBoundingClientRect();
    return this.low + ((clientX - box.left) / box.width) * (this.high - this.low);
  }

  step(event, which) {
    const direction = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!direction) return;
    event.preventDefault();
    this.set(which, this.value(which) + direction * (event.shiftKey ? 5 : 1));
  }

  draw() {
    this.bars();
    for (const which of ["lower", "upper"]) this.follow(which);
  }

  follow(which) {
    const value = this.value(which), was = this.inputs[which].dataset.was, unit = this.inputs[which].dataset.unit;
    const count = beyond(this.values, value, this.reversed), knob = this.knobs[which];
    knob.style.left = this.at(value);
    knob.setAttribute("aria-valuenow", value);
    knob.setAttribute("aria-valuetext", `${quantity(value, unit)}${this.values.length ? `, ${count} of ${this.values.length} beyond` : ""}`);
    this.old[which].style.left = this.at(Number(was));
    this.old[which].hidden = was === "" || Number(was) === value;
    if (this.values.length) this.node.querySelector(`[data-above="${which}"]`).replaceChildren(el(which === "upper" ? "b" : "span", {}, String(count)), ` ${this.reversed ? "below" : "above"}`);
  }

  /** Bars by how far the value is: grey, busy, evict. */
  bars() {
    const scale = devicePixelRatio || 1, width = this.canvas.clientWidth, context = this.canvas.getContext("2d");
    this.canvas.width = width * scale;
    this.canvas.height = HEIGHT * scale;
    context.scale(scale, scale);
    const counts = bins(this.values, this.low, this.high), top = Math.sqrt(Math.max(...counts, 1)), step = width / BINS;
    const { lower, upper } = this.limits(), past = (value, limit) => (this.reversed ? value < limit : value > limit);
    counts.forEach((count, i) => {
      if (!count) return;
      const value = this.low + ((i + 0.5) / BINS) * (this.high - this.low), height = Math.max(2, (Math.sqrt(count) / top) * (HEIGHT - 6));
      context.fillStyle = colour(past(value, upper) ? "--st-overloaded" : past(value, lower) ? "--mk-busy" : "--ch-ghost");
      context.fillRect(Math.round(i * step) + 0.5, HEIGHT - height, Math.max(1, Math.floor(step) - 1.5), height);
    });
  }
}

// ---- review ----

function review(form, rows) {
  const changes = [...form.querySelectorAll("[data-was]")].filter((input) => differs(input));
  form.querySelector("#diff").replaceChildren(...changes.map(changed));
  form.querySelector("#no-diff").hidden = changes.length > 0;
  const warnings = rows.flatMap((row) => warning(row, form.dataset.from));
  const box = form.querySelector("#warnings");
  box.hidden = !warnings.length;
  box.replaceChildren(...warnings);
}

const differs = ({ value, dataset: { was } }) => (value === "" || was === "" ? value !== was : Number.isNaN(Number(value)) ? value !== was : Number(value) !== Number(was));

function changed(input) {
  const cell = (tag, text) => el("td", { class: "num" }, el(tag, {}, text));
  return el("tr", {}, el("td", {}, input.dataset.label), cell("del", shown(input, input.dataset.was)), cell("b", shown(input, input.value)));
}

function shown(input, value) {
  if (input.matches("select")) return [...input.options].find((option) => option.value === value)?.textContent ?? value;
  if (value === "") return input.placeholder || "none";
  return quantity(Number(value), input.dataset.unit, (value.split(".")[1] ?? "").length); // exact: a rounded limit is another limit
}

/** GPUs that the new limit catches and the old one did not. */
function warning(row, from) {
  const input = row.inputs.upper;
  const now = beyond(row.values, Number(input.value), row.reversed), before = input.dataset.was === "" ? 0 : beyond(row.values, Number(input.dataset.was), row.reversed);
  if (now <= before) return [];
  const text = `${now} GPU${now === 1 ? " is" : "s are"} past the new ${row.name} limit now, ${before} past that of ${from}. A job there is evicted once the dwell is over.`;
  return [el("div", { class: "note is-busy" }, glyph("half"), el("span", {}, text))];
}
