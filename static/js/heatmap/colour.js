// From a cell's bytes to how it is drawn: one of six looks, and a colour of the ramp. Pure.
import {
  GPU_UTIL, HEADROOM, IDLE, LOOK, MEMORY, MISSING, OFFLINE_SHARE, OK, POWER, SM_ACTIVITY, STALE, STATE, STATES, TEMPERATURE, UNREACHABLE,
  UNSUPPORTED, ZERO, FLAG, FLAGS,
} from "../wire.js";

// What a cell can be filled by. `ramp` danger: the end that threatens online work is the loudest, `loud` says which end that is.
// `ramp` amount: more is darker (light theme) or brighter (dark), and neither end is bad. One step of a byte is 0.5 units.
export const FILLS = {
  headroom: { word: "Headroom to eviction", short: "Headroom", field: HEADROOM, unit: "%", from: 0, to: 100, ramp: "danger", loud: "low" },
  sm_activity: { word: "SM activity", field: SM_ACTIVITY, unit: "%", from: 0, to: 100, ramp: "amount" },
  utilisation: { word: "Utilisation", field: GPU_UTIL, unit: "%", from: 0, to: 100, ramp: "amount" },
  memory: { word: "Memory", field: MEMORY, unit: "%", from: 0, to: 100, ramp: "danger", loud: "high" },
  offline_share: { word: "Offline share", field: OFFLINE_SHARE, unit: "%", from: 0, to: 100, ramp: "amount" },
  temperature: { word: "Temperature", field: TEMPERATURE, unit: "°C", from: 20, to: 100, ramp: "danger", loud: "high" },
  power: { word: "Power", field: POWER, unit: "%", from: 0, to: 100, ramp: "danger", loud: "high" },
  state: { word: "State" },
};

// Stops of monotone lightness; 0 is the loud end.
const RAMPS = {
  danger: {
    light: [[0, "#7a2400"], [0.1, "#b4560f"], [0.25, "#d59d62"], [0.45, "#bcc5cd"], [0.7, "#d5dfe9"], [1, "#e9f0f7"]],
    dark: [[0, "#ffe27a"], [0.1, "#f0b54a"], [0.25, "#b4874f"], [0.45, "#667181"], [0.7, "#3d5268"], [1, "#263a4c"]],
  },
  amount: {
    light: [[0, "#1d3a57"], [0.25, "#47698c"], [0.5, "#86a0ba"], [0.75, "#bccbda"], [1, "#e9f0f7"]],
    dark: [[0, "#d6e8f8"], [0.25, "#92b0cc"], [0.5, "#5f7f9e"], [0.75, "#3c566e"], [1, "#22323f"]],
  },
};

/** [r, g, b] at `t` of a ramp, 0 the loud end. */
export function rampAt(ramp, theme, t) {
  const stops = RAMPS[ramp][theme];
  let i = 1;
  while (i < stops.length - 1 && t > stops[i][0]) i += 1;
  const [a, low] = stops[i - 1], [b, high] = stops[i], share = Math.max(0, Math.min(1, (t - a) / (b - a)));
  const from = rgb(low), to = rgb(high);
  return from.map((channel, k) => Math.round(channel + (to[k] - channel) * share));
}

/** Relative luminance (WCAG) of [r, g, b]. */
export function luminance(channels) {
  const [r, g, b] = channels.map((value) => { const s = value / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Where `value` lies between the ends of a fill: 0 at the loud end, 1 at the other. */
export function place(fill, value, { from = fill.from, to = fill.to } = {}) {
  const share = to > from ? Math.max(0, Math.min(1, (value - from) / (to - from))) : 1;
  return fill.loud === "low" ? share : 1 - share;
}

/** The colours of every byte of a fill: [{ ground, ink }], ink being what is legible on it. Index 255 is never asked for. */
export function palette(fill, theme, range) {
  return Array.from({ length: 256 }, (_, byte) => {
    const channels = rampAt(fill.ramp, theme, place(fill, byte * 0.5, range));
    return { ground: css(channels), ink: luminance(channels) > 0.19 ? "#141a21" : "#ffffff" };
  });
}

/** A look of its own: the value is not being watched (yet), so nothing is said of it. */
export const PENDING = 6;

/** How a row of GPUs or nodes is drawn under a fill: a look of wire.js, or PENDING. */
export function lookOf(rows, row, fill) {
  const look = rows.columns[LOOK][row], { field } = fill;
  if (look === UNREACHABLE || look === UNSUPPORTED || look === STALE) return look === STALE && field !== undefined && !rows.isWatched(row, field) ? PENDING : look;
  if (field === undefined) return OK; // by state, every state is a colour
  if (look === IDLE) return IDLE;
  if (!rows.isWatched(row, field)) return PENDING;
  const byte = rows.columns[field][row];
  return byte === MISSING ? UNSUPPORTED : byte === 0 ? ZERO : OK;
}

/** What colours it: the byte of the value, or the state's index in STATES, one past the end for suspect hardware. */
export function byteOf(rows, row, fill) {
  return fill.field === undefined ? stateIndex(rows, row) : rows.columns[fill.field][row];
}

export function stateIndex(rows, row) {
  return rows.columns[FLAGS][row] & FLAG.HARDWARE ? STATES.length : rows.columns[STATE][row];
}

const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;
const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
