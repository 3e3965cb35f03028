// The colours of the present theme, resolved as a canvas takes them: only a page knows them.
import { GPU_LOOKS } from "../glyphs.js";
import { colour, isDark } from "../kit.js";
import { QUIET, STATE_NAMES } from "./sprites.js";

let kept = null; // to resolve them has the browser lay out styles

export function inks() {
  const theme = isDark() ? "dark" : "light";
  if (kept?.theme !== theme) kept = resolved(theme);
  return kept;
}

function resolved(theme) {
  const dark = theme === "dark";
  return {
    theme,
    surface: colour("--mf-surface"), ink: colour("--mf-ink"), ink2: colour("--mf-ink-2"), ink3: colour("--mf-ink-3"), line: colour("--mf-line"), pending: colour("--mf-sunken"),
    hollow: colour("--mf-line-strong"), accent: colour("--mf-accent"), empty: dark ? "#000000" : "#3a434e", emptyInk: dark ? "#c4ccd6" : "#ffffff",
    tone: Object.fromEntries(STATE_NAMES.concat("NO_DATA").map((name) => [name, colour(`--st-${GPU_LOOKS[name].tone}`)])),
    fill: Object.fromEntries(STATE_NAMES.map((name) => [name, colour(name === "UNHEALTHY" ? "--mk-busy" : `--st-${GPU_LOOKS[name].tone}${QUIET.has(name) ? "-soft" : ""}`)])),
  };
}
