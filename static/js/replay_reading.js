// What a replay knows of a moment. DOM-free; the twin of console/replay/{footage,tracks}.py.

/** Index of the last point that is not later; -1 before the first. */
export function indexAt(times, at) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The span that holds a moment; the last one also holds its own end. */
export function spanAt(spans, at) {
  return spans.find(({ from, to }) => from <= at && at < to) ?? (spans.at(-1)?.to <= at ? spans.at(-1) : undefined);
}

/** The time of the pin before (−1) or after (1) a moment, of pins in ascending time; undefined: there is none. */
export function neighbour(pins, at, way) {
  const beyond = pins.filter((pin) => (pin.at - at) * way > 1e-3);
  return (way < 0 ? beyond.at(-1) : beyond[0])?.at;
}

/** A track at a point: its value (null: missing), its worst where that was worse, and the limits then in force. */
export function readingAt({ values, low, high, limits, falling }, index, at) {
  const value = values[index] ?? null, extreme = (falling ? low : high)[index] ?? null, worst = extreme === value ? null : extreme;
  const { busy = null, evict = null } = spanAt(limits, at) ?? {};
  const seen = worst ?? value;
  return { value, worst, busy, evict, over: seen != null && evict != null && (falling ? seen < evict : seen > evict) };
}
