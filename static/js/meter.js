// A value on its scale with its marks, drawn like the template tag {% meter %}.
const SVG = "http://www.w3.org/2000/svg";

/** The rectangles of a meter as [class, x %, width % or null]: the marks SLO, busy at and evict at, the part beyond in colour. Pure. */
export function bars(value, { most, busy_at: busyAt, evict_at: evictAt, slo, falling = false }) {
  const at = (v) => Math.max(0, Math.min(1, v / most)) * 100, out = [];
  if (!most) return out;
  if (value != null) {
    const edges = falling ? [] : [slo, evictAt].filter((edge) => edge != null), edge = edges.length ? Math.min(...edges) : most;
    out.push(["used", 0, at(Math.min(value, edge))]);
    if (value > edge) out.push(["over", at(edge), at(value) - at(edge)]);
  }
  for (const [name, v] of [["slo", slo], ["warn", busyAt], ["limit", evictAt]]) if (v != null) out.push([name, at(v), null]);
  return out;
}

/** Draws a meter into `svg`, or into a new one. */
export function meter(value, scale, svg = document.createElementNS(SVG, "svg")) {
  svg.setAttribute("class", "meter");
  svg.setAttribute("aria-hidden", "true");
  svg.replaceChildren(rect("track", "0%", "100%", 4, 6, 3), ...bars(value, scale).map(([name, x, width]) => (
    width === null ? rect(name, `${x.toFixed(2)}%`, "2", 0, 14, 1) : rect(name, `${x.toFixed(2)}%`, `${width.toFixed(2)}%`, 4, 6, 2)
  )));
  return svg;
}

function rect(name, x, width, y, height, radius) {
  const node = document.createElementNS(SVG, "rect");
  for (const [key, value] of Object.entries({ class: name, x, width, y, height, rx: radius })) node.setAttribute(key, value);
  return node;
}
