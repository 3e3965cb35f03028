// Where a chart puts its ticks and how it writes them. Pure: numbers in, numbers and words out. Times are seconds, UTC.
const STEPS_S = [1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 259200, 604800, 1209600];
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY = 86400;

/** Whole moments between two times, at most `most` of them. */
export function timeTicks(from, to, most) {
  const step = STEPS_S.find((s) => (to - from) / s <= Math.max(1, most)) ?? STEPS_S.at(-1);
  const ticks = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) ticks.push(t);
  return ticks;
}

/** "10:36:05", "10:36", "Wed 18" or "18 Nov": as much as tells one tick of the span from the next. */
export function timeWord(t, spanS, stepS) {
  const at = new Date(t * 1000), clock = at.toISOString().slice(11, 19);
  if (stepS < 60) return clock;
  if (spanS <= 1.5 * DAY) return clock.slice(0, 5);
  if (spanS <= 20 * DAY) return `${DAYS[at.getUTCDay()]} ${at.getUTCDate()}`;
  return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
}

/** A time in full, for the tip: "Wed 18 Nov 10:36:05 UTC". */
export function exactTime(t) {
  const at = new Date(t * 1000);
  return `${DAYS[at.getUTCDay()]} ${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]} ${at.toISOString().slice(11, 19)} UTC`;
}

/** About `count` round values from `low` to at least `high`; the last one is the top of the axis. */
export function valueTicks(low, high, count = 4) {
  const raw = Math.max(high - low, Number.EPSILON) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 4, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const first = Math.floor(low / step + 1e-9) * step, ticks = [];
  for (let i = 0; ; i += 1) {
    const value = Number((first + i * step).toPrecision(12));
    ticks.push(value);
    if (value >= high - step * 1e-6) return ticks;
  }
}

/** "24k", "80 %", "0.5": short enough for an axis. */
export function axisWord(value, unit = "") {
  const short = Math.abs(value) >= 10000 ? `${Number((value / 1000).toPrecision(4))}k` : String(value);
  return unit ? `${short}\u00a0${unit}` : short;
}

/** The highest and lowest value of some columns; null when there is none. */
export function extent(columns) {
  let low = Infinity, high = -Infinity;
  for (const column of columns) for (const value of column) if (value != null) { low = Math.min(low, value); high = Math.max(high, value); }
  return high === -Infinity ? null : [low, high];
}

/** Breaks the line where samples are further apart than `gapS`: a null between them. Missing time is never drawn through. */
export function withGaps(x, columns, gapS) {
  if (!gapS) return [x, ...columns];
  const out = [[], ...columns.map(() => [])];
  x.forEach((t, i) => {
    if (i && t - x[i - 1] > gapS) {
      out[0].push((t + x[i - 1]) / 2);
      for (let c = 1; c < out.length; c += 1) out[c].push(null);
    }
    out[0].push(t);
    columns.forEach((column, c) => out[c + 1].push(column[i] ?? null));
  });
  return out;
}

/** Where a value stands alone, so that no line shows it: the indexes, null without any. */
export function lonePoints(column) {
  const alone = [];
  for (let i = 0; i < column.length; i += 1) if (column[i] != null && column[i - 1] == null && column[i + 1] == null) alone.push(i);
  return alone.length ? alone : null;
}

/** Drops what is older than `windowS` before the newest time; arrays are cut in place. */
export function keepWindow(x, columns, windowS) {
  const oldest = x.at(-1) - windowS, cut = x.findIndex((t) => t >= oldest);
  if (cut > 0) for (const column of [x, ...columns]) column.splice(0, cut);
}

/** The first row in which from..to is free, which is then taken; -1: there is none. */
export function freeRow(rows, from, to) {
  const row = rows.findIndex((taken) => taken.every(([a, b]) => to < a || from > b));
  rows[row]?.push([from, to]);
  return row;
}
