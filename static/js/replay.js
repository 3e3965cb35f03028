// Ten minutes of one GPU, signal by signal, on one axis of time with one mark: <div data-module="replay">.
import { lineChart } from "./charts/line.js";
import { timeTicks, timeWord } from "./charts/ticks.js";
import { quantity } from "./figures.js";
import { el } from "./kit.js";
import { indexAt, neighbour, readingAt, spanAt } from "./replay_reading.js";

const TURN_MS = 100, URL_AFTER_MS = 300, TICK_PX = 76;

export function mount(page) {
  new Replay(page, JSON.parse(page.querySelector("#replay-data").textContent)).start();
}

class Replay {
  constructor(page, data) {
    Object.assign(this, { page, data, playing: 0, saving: 0 });
    this.scrub = page.querySelector(".rp-scrub");
    this.play = this.part("play");
    this.stack = this.part("stack");
    this.mark = this.part("mark");
    this.rows = new Map([...page.querySelectorAll("[data-reading]")].map((row) => [row.dataset.reading, row]));
    this.stays = [...page.querySelectorAll("[data-part=stays] [data-from]")].map((node) => ({ from: Number(node.dataset.from), to: Number(node.dataset.to), node }));
    this.list = page.querySelector(".rp-list");
    this.moments = [...this.list.querySelectorAll("li")].map((node) => ({ at: Number(node.dataset.at), node }));
    this.pins = [...page.querySelectorAll(".rp-pin, .rp-tick")].map((node) => ({ at: Number(node.dataset.at), what: node.title })).sort((a, b) => a.at - b.at);
  }

  part(name) { return this.page.querySelector(`[data-part="${name}"]`); }
  get axis() { return parseFloat(getComputedStyle(this.page).getPropertyValue("--axis")); }
  get ends() { return parseFloat(getComputedStyle(this.page).getPropertyValue("--end")); }

  start() {
    for (const track of this.data.tracks) lineChart(this.page.querySelector(`[data-track="${track.name}"]`), options(track, this.data, this.axis));
    this.place();
    new ResizeObserver(() => this.moveMark()).observe(this.stack);
    for (const control of [this.scrub, this.play, ...this.page.querySelectorAll("[data-step]")]) control.disabled = false;
    this.scrub.addEventListener("input", () => this.seek(Number(this.scrub.value)));
    this.play.addEventListener("click", () => this.toggle());
    this.stack.addEventListener("pointerdown", (event) => this.drag(event));
    this.page.addEventListener("click", (event) => this.onPin(event));
    this.seek(Number(this.scrub.value), { save: false });
  }

  /** States and pins stand where their time is. */
  place() {
    const { start, end } = this.data, share = (t) => `${(100 * (t - start)) / (end - start)}%`;
    const clock = this.part("times"), whole = timeTicks(start + 5, end - 15, clock.clientWidth / TICK_PX);
    clock.replaceChildren(...whole.map((t) => el("span", { "data-at": t }, timeWord(t, end - start, whole[1] - whole[0]))));
    for (const { from, to, node } of this.stays) { node.style.left = share(from); node.style.width = `${(100 * (to - from)) / (end - start)}%`; node.title = node.textContent; }
    this.page.querySelector("[data-part=stays] .rp-line").classList.add("is-placed");
    for (const pin of this.page.querySelectorAll(".rp-line [data-at], .rp-times [data-at]")) pin.style.left = share(Number(pin.dataset.at));
  }

  // ---- the moment ----

  seek(at, { save = true } = {}) {
    const { start, end } = this.data;
    this.at = Math.max(start, Math.min(end, at));
    this.scrub.value = Math.round(this.at);
    this.moveMark();
    this.tell();
    if (save) this.save();
  }

  moveMark() {
    const { start, end } = this.data, style = getComputedStyle(this.stack), pad = parseFloat(style.paddingLeft);
    const room = this.stack.clientWidth - pad - parseFloat(style.paddingRight) - this.axis - this.ends;
    this.mark.hidden = false;
    this.mark.style.left = `${pad + this.axis + (room * (this.at - start)) / (end - start)}px`;
  }

  /** What was so then: the clock, the state, each signal; and in words for whoever does not see it. */
  tell() {
    const clock = new Date(this.at * 1000).toISOString().slice(11, 19), stay = spanAt(this.stays, this.at), index = indexAt(this.data.times, this.at);
    for (const node of this.page.querySelectorAll("[data-part=clock]")) node.textContent = clock;
    for (const node of this.page.querySelectorAll("[data-part=state]")) node.replaceChildren(...(stay ? [...stay.node.childNodes].map((child) => child.cloneNode(true)) : ["state not known"]));
    const words = this.data.tracks.map((track) => this.tellOne(track, index));
    for (const { at, node } of this.moments) node.classList.toggle("is-now", isNow(at, this.at));
    this.part("told").textContent = this.pins.filter(({ at }) => isNow(at, this.at)).map(({ what }) => what).join("; ");
    this.scrub.setAttribute("aria-valuetext", `${clock}, ${stay?.node.textContent.trim() || "state not known"}, ${words.slice(0, 4).join(", ")}`);
  }

  tellOne(track, index) {
    const { value, worst, busy, evict, over } = readingAt(track, index, this.at), row = this.rows.get(track.name);
    const word = (number) => (number == null ? "" : quantity(number, track.unit, track.digits));
    const cells = { value: quantity(value, track.unit, track.digits), worst: word(worst), busy: word(busy), evict: word(evict) };
    for (const [name, text] of Object.entries(cells)) row.querySelector(`[data-cell="${name}"]`).textContent = text;
    row.classList.toggle("is-overloaded", over);
    return `${track.word} ${cells.value}${over ? ", over its limit" : ""}`;
  }

  /** The address holds the moment, so that it can be sent to somebody. */
  save() {
    clearTimeout(this.saving);
    this.saving = setTimeout(() => {
      const url = new URL(location.href);
      if (!url.searchParams.has("at") && !url.searchParams.has("eviction")) url.searchParams.set("at", String(Math.round((this.data.start + this.data.end) / 2)));
      url.searchParams.set("mark", String(Math.round(this.at)));
      history.replaceState(history.state, "", url);
    }, URL_AFTER_MS);
  }

  // ---- what moves it ----

  toggle(on = !this.playing) {
    clearInterval(this.playing);
    this.playing = on ? setInterval(() => this.turn(), TURN_MS) : 0;
    this.play.textContent = on ? "Pause" : "Play";
    this.play.setAttribute("aria-pressed", String(on));
    if (on && this.at >= this.data.end) this.seek(this.data.start);
  }

  turn() {
    if (!this.page.isConnected) return this.toggle(false);
    this.seek(this.at + (Number(this.part("speed").value) * TURN_MS) / 1000);
    if (this.at >= this.data.end) this.toggle(false);
  }

  drag(event) {
    if (!event.target.closest(".rp-ch, .rp-line") || event.button) return;
    const box = this.stack.getBoundingClientRect(), pad = parseFloat(getComputedStyle(this.stack).paddingLeft);
    const room = box.width - 2 * pad - this.axis - this.ends, { start, end } = this.data;
    const to = ({ clientX }) => this.seek(start + ((clientX - box.left - pad - this.axis) / room) * (end - start));
    const stop = () => { removeEventListener("pointermove", to); removeEventListener("pointerup", stop); removeEventListener("pointercancel", stop); };
    addEventListener("pointermove", to);
    addEventListener("pointerup", stop);
    addEventListener("pointercancel", stop);
    to(event);
  }

  /** To the pin before (−1) or after (1); the list beside it follows. */
  step(way) {
    const at = neighbour(this.pins, this.at, way);
    if (at == null) return;
    this.seek(at);
    const row = this.list.querySelector(".is-now");
    if (row) this.list.scrollTop = row.offsetTop - this.list.clientHeight / 2;
  }

  onPin(event) {
    const step = event.target.closest("[data-step]"), link = event.target.closest("[data-seek]");
    if (step) return this.step(Number(step.dataset.step));
    if (!link || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    this.seek(Number(link.dataset.seek));
  }
}

const isNow = (at, moment) => Math.abs(at - moment) < 1;

/** One track as a chart; low to high is shaded, and limits hold only as long as their version did. */
function options(track, { times, start, end, around }, axis) {
  const series = [
    { label: track.word, values: track.values },
    { label: "lowest", values: track.low, look: "faint" },
    { label: "highest", values: track.high, look: "faint" },
  ];
  if (track.part) series.push({ label: track.part_word, values: track.part, look: "ghost" });
  return {
    x: times, series, bands: [[1, 2]], from: start, to: end, now: around, unit: track.unit, digits: track.digits, axis_px: axis, time_axis: false,
    range: [0, track.top], thresholds: track.limits.flatMap(limits), empty: "Not recorded then",
  };
}

const LIMITS = [["busy", "warn"], ["evict", "limit"], ["slo", "slo"]];
const limits = (one) => LIMITS.flatMap(([name, look]) => (one[name] == null ? [] : [{ at: one[name], from: one.from, to: one.to, look }]));
