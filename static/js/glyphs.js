// The outlines of state glyphs in a 16 × 16 box (even-odd), for canvases. Twin of GLYPHS in console/looks.py; a test holds them together.
export const GLYPHS = {
  disc: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11z",
  half: "M8 2a6 6 0 1 0 0 12a6 6 0 0 0 0-12zM8 3.8a4.2 4.2 0 0 1 0 8.4z",
  bars: "M3.5 2.5h3.2v11H3.5zM9.3 2.5h3.2v11H9.3z",
  triangle: "M8 1.2L15.4 14.4H.6zM7.1 5.8h1.8v4.4H7.1zM7.1 11.2h1.8v1.7H7.1z",
  hourglass: "M3 1.5h10v2.2L9.6 8l3.4 4.3v2.2H3v-2.2L6.4 8 3 3.7z",
  diamond: "M8 .6L15.4 8 8 15.4.6 8zM7.1 4.4h1.8v4.4H7.1zM7.1 10h1.8v1.8H7.1z",
  barred: "M2 2h12v12H2zM4 4h8v8H4zM4.4 10.2l5.8-5.8 1.4 1.4-5.8 5.8z",
  ring: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 3.8a4.2 4.2 0 1 0 0 8.4a4.2 4.2 0 0 0 0-8.4z",
  cross: "M3.4 2L8 6.6 12.6 2 14 3.4 9.4 8l4.6 4.6-1.4 1.4L8 9.4 3.4 14 2 12.6 6.6 8 2 3.4z",
  tick: "M6.2 13.2L1.4 8.4 2.9 6.9l3.3 3.3 6.9-7 1.5 1.5z",
  dash: "M2.5 6.9h11v2.2h-11z",
  arrows: "M1.5 4h8.2V1.2L14.5 5 9.7 8.8V6H1.5zM14.5 10H6.3V7.2L1.5 11l4.8 3.8V12h8.2z",
};

// GPU states by their wire name: the word, the tone (class is-…, colours --st-… and --mk-…) and the glyph.
export const GPU_LOOKS = {
  HEALTHY: { word: "Healthy", tone: "healthy", glyph: "disc" },
  UNHEALTHY: { word: "Busy", tone: "busy", glyph: "half" },
  GUARDED: { word: "Guarded", tone: "guarded", glyph: "bars" },
  OVERLIMIT: { word: "Overloaded", tone: "overloaded", glyph: "triangle" },
  COOLDOWN: { word: "Cooling down", tone: "cooling", glyph: "hourglass" },
  DISABLED: { word: "Disabled", tone: "disabled", glyph: "barred" },
  INIT: { word: "Starting", tone: "starting", glyph: "ring" },
  QUARANTINED: { word: "Hardware suspect", tone: "suspect", glyph: "diamond" },
  NO_DATA: { word: "No live data", tone: "unknown", glyph: "cross" },
};
