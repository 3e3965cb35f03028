// What modules build elements with: icons, glyphs, state words, resolved colours.
import { GLYPHS, GPU_LOOKS } from "./glyphs.js";

const SVG = "http://www.w3.org/2000/svg";

/** An element: el("span", { class: "q", title: "…" }, "text", child). */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

/** An icon of the sprite; the name must be listed in console/assets/icons.py. */
export function icon(name, classes = "") {
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `${document.documentElement.dataset.icons}#tabler-${name}`);
  return svg(`i ${classes}`.trim(), null, use);
}

/** The glyph of a GPU state, or any glyph by name. */
export function glyph(name, tone = "") {
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("fill-rule", "evenodd");
  path.setAttribute("d", GLYPHS[name]);
  return svg(tone ? `g is-${tone}` : "g", "0 0 16 16", path);
}

/** Glyph and word of a GPU state, as the template tag {% state %} draws it. */
export function state(name, { word, tag = false } = {}) {
  const look = GPU_LOOKS[name];
  return el("span", { class: `st${tag ? " tag" : ""} is-${look.tone}` }, glyph(look.glyph), word ?? look.word);
}

function svg(classes, box, child) {
  const node = document.createElementNS(SVG, "svg");
  node.setAttribute("class", classes);
  node.setAttribute("aria-hidden", "true");
  if (box) node.setAttribute("viewBox", box);
  node.append(child);
  return node;
}

let probe;
/** The colour behind a custom property in the present theme, as canvas takes it: light-dark() resolved. */
export function colour(name) {
  probe ??= document.documentElement.appendChild(el("i", { hidden: true }));
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

export const isDark = () => document.documentElement.dataset.bsTheme === "dark";

/** Calls back on every change of theme; canvases draw again. Returns the function that stops it. */
export function onTheme(callback) {
  document.addEventListener("mf:theme", callback);
  return () => document.removeEventListener("mf:theme", callback);
}
