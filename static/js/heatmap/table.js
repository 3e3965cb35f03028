// The map as a table: the same GPUs, values and looks, for screen readers, for tests, and for whoever wants the numbers.
import { NO_DATA, quantity } from "../figures.js";
import { el, state as stateWord } from "../kit.js";
import { DUTY, FLAG, FLAGS, GPU_UTIL, HEADROOM, LOOK, LOOKS, MEMORY, OFFLINE_SHARE, P99, POWER, SM_ACTIVITY, STALE, STATE, TEMPERATURE, UNREACHABLE } from "../wire.js";

const PENDING = "…"; // the value is asked for and not here yet

const PAGE = 100;
const text = (value) => (a, b) => String(value(a)).localeCompare(String(value(b)), "en", { numeric: true });
const LOOK_WORDS = { OK: "live", ZERO: "live, zero", IDLE: "live, idle", STALE: "stale", UNREACHABLE: "unreachable", UNSUPPORTED: "unsupported" };

/** Columns: how a cell reads, how two rows compare, and by which bytes; which are missing, and come last. */
function columns(store) {
  const { layout, gpus } = store, known = (read) => (row) => (gpus.isKnown(row) ? read(row) : PENDING);
  const number = (word, field, unit = "%", digits = 0, opt = true) => ({
    word, num: true, opt, field, by: [field], read: (row) => (gpus.isWatched(row, field) ? quantity(store.value(row, field), unit, digits) : PENDING),
    isMissing: (row) => store.value(row, field) === null, compare: (a, b) => store.value(a, field) - store.value(b, field),
  });
  return {
    gpu: { word: "GPU", read: (row) => el("a", { href: `/gpus/${layout.id(row)}/` }, layout.name(row)), compare: text((row) => layout.name(row)) },
    pool: { word: "Pool", opt: true, read: (row) => layout.pool(row), compare: text((row) => layout.pool(row)) },
    model: { word: "Model", opt: true, read: (row) => layout.model(row), compare: text((row) => layout.model(row)) },
    service: { word: "Online service", opt: true, read: (row) => layout.service(row) ?? "none", compare: text((row) => layout.service(row) ?? "") },
    state: { word: "State", by: [LOOK, STATE, FLAGS], read: known((row) => stateWord(store.state(row))), compare: text((row) => store.state(row)) },
    headroom: number("Headroom", HEADROOM, "%", 0, false),
    sm_activity: number("SM activity", SM_ACTIVITY, "%", 0, false),
    offline_share: number("Offline share", OFFLINE_SHARE),
    utilisation: number("Utilisation", GPU_UTIL),
    memory: number("Memory", MEMORY),
    p99: number("p99 of SLO", P99),
    duty: { ...number("Duty", DUTY), read: (row) => (!gpus.isWatched(row, DUTY) ? PENDING : store.has(row, FLAG.OFFLINE) ? quantity(store.value(row, DUTY), "%") : "no guest") },
    temperature: number("Temp.", TEMPERATURE, "°C"),
    power: number("Power", POWER),
    data: { word: "Data", by: [LOOK], read: known((row) => LOOK_WORDS[LOOKS[store.byte(row, LOOK)]]), compare: (a, b) => store.byte(a, LOOK) - store.byte(b, LOOK) },
  };
}

// Where the loud end is the high one, the table starts with the highest.
const DESCENDING = new Set(["sm_activity", "utilisation", "memory", "offline_share", "temperature", "power", "p99"]);

export class Table {
  /** `read(columns)` brings them up to date in the store; `onShown` is told whenever other rows, or rows in another order, are shown. */
  constructor(box, store, read, onShown) {
    Object.assign(this, { box, store, read, onShown, rows: [], order: [], columns: {}, by: "headroom", down: false, shown: PAGE, cells: new Map() });
  }

  /** The rows that are seen, and the field that all are ordered by (undefined when that is none). */
  get visible() { return this.order.slice(0, this.shown); }
  get field() { return this.columns[this.by]?.field; }

  /** Shows these rows, ordered by a column; `by` of a fill orders from its loud end. */
  async show(rows, by) {
    if (by && by !== this.by) Object.assign(this, { by, down: DESCENDING.has(by), shown: PAGE });
    Object.assign(this, { rows, columns: columns(this.store) });
    const asked = this.asked = this.columns[this.by], { by: bytes = [], compare, isMissing = () => false } = asked, turn = this.down ? -1 : 1, { layout } = this.store;
    await this.read(bytes);
    if (asked !== this.asked) return; // for other rows, or in another order, meanwhile
    this.order = [...rows].sort((a, b) => isMissing(a) - isMissing(b) || turn * compare(a, b) || layout.id(a) - layout.id(b));
    this.draw();
  }

  draw() {
    this.cells.clear();
    const { visible } = this, heads = Object.entries(this.columns).map(([key, column]) => this.head(key, column));
    visible.forEach((row) => this.cells.set(row, { from: this.from(row) }));
    const body = visible.map((row) => el("tr", {}, ...Object.entries(this.columns).map(([key, column]) => this.cell(row, key, column))));
    const table = el("table", { class: "t rows edge" }, el("caption", { class: "visually-hidden" }, "GPUs with their live values"),
      el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...body));
    const more = this.order.length > visible.length && el("button", { class: "b sm", type: "button" }, `Show ${Math.min(PAGE, this.order.length - visible.length)} more`);
    more && more.addEventListener("click", () => { this.shown += PAGE; this.draw(); });
    const foot = el("p", { class: "tablefoot" }, el("span", { class: "tn" }, `${visible.length.toLocaleString("en")} of ${this.order.length.toLocaleString("en")} GPUs. Values change in place; the order is kept until you choose another.`), more || null);
    this.box.replaceChildren(el("div", { class: "scroll-x" }, table), foot);
    this.onShown();
  }

  head(key, column) {
    const here = key === this.by, button = el("button", { class: "linklike", type: "button" }, column.word);
    button.addEventListener("click", () => {
      Object.assign(this, here ? { down: !this.down } : { by: key, down: DESCENDING.has(key) });
      this.show(this.rows);
    });
    return el("th", { scope: "col", class: classes(column), "aria-sort": here ? (this.down ? "descending" : "ascending") : null }, button);
  }

  cell(row, key, column) {
    const cell = el("td", { class: classes(column) });
    this.fill(cell, column.read(row));
    this.cells.get(row)[key] = cell;
    return cell;
  }

  fill(cell, content) {
    if (cell.textContent === content) return;
    cell.replaceChildren(content);
    cell.classList.toggle("none", content === NO_DATA || content === "no guest");
  }

  /** All that the cells of a row are written from. */
  from(row) {
    const { watch, columns } = this.store.gpus;
    return `${this.store.gpus.isKnown(row)} ${watch?.number} ${columns.map((bytes) => bytes[row])}`;
  }

  /** New values, in place. */
  update() {
    for (const [row, cells] of this.cells) {
      const from = this.from(row);
      if (from === cells.from) continue;
      cells.from = from;
      cells.gpu.parentElement.classList.toggle("faint", [STALE, UNREACHABLE].includes(this.store.byte(row, LOOK)));
      for (const [key, column] of Object.entries(this.columns)) {
        if (!["gpu", "pool", "model", "service"].includes(key)) this.fill(cells[key], column.read(row));
      }
    }
  }
}

const classes = ({ num, opt }) => [num && "num", opt && "opt"].filter(Boolean).join(" ");
