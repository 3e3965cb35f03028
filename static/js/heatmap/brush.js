// A part of the legend that keeps its colours: { kind: "state" | "look" | "guests", name } or { kind: "range", from, to } of the fill's unit. Pure.
import { GPU_LOOKS } from "../glyphs.js";
import { stateOf } from "../store.js";
import { FLAG, LOOK, LOOKS, OK, STALE, UNREACHABLE, ZERO } from "../wire.js";
import { lookOf } from "./colour.js";

/** A brush as an address holds it, and back; null where it is none. */
export const brushText = (brush) => (!brush ? null : brush.kind === "range" ? `${brush.from}-${brush.to}` : brush.name.toLowerCase());

export function brushOf(text) {
  const range = /^(\d+)-(\d+)$/.exec(text ?? ""), name = (text ?? "").toUpperCase();
  if (range) return { kind: "range", from: Number(range[1]), to: Number(range[2]) };
  if (name === "GUESTS") return { kind: "guests", name };
  if (LOOKS.includes(name)) return { kind: "look", name };
  return name in GPU_LOOKS ? { kind: "state", name } : null;
}

/** Whether a row lies in a brush, as a function of the row; null where there is no brush. `imported` marks GPUs without an agent. */
export function holds(brush, rows, fill, imported) {
  if (!brush) return null;
  const { kind, name, from, to } = brush, isLive = (row) => ![STALE, UNREACHABLE].includes(rows.byte(row, LOOK)), look = LOOKS.indexOf(name);
  if (kind === "state") return (row) => stateOf(rows, row, imported?.[row] === 1) === name;
  if (kind === "guests") return (row) => isLive(row) && rows.has(row, FLAG.OFFLINE);
  if (kind === "look") return (row) => lookOf(rows, row, fill) === look;
  return (row) => [OK, ZERO].includes(lookOf(rows, row, fill)) && rows.value(row, fill.field) >= from && rows.value(row, fill.field) <= to;
}
