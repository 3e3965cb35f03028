// The age of the data in the header of every page, and what is closed while it is old.
import { age as ageWord, span } from "./figures.js";
import { GLYPHS, GPU_LOOKS } from "./glyphs.js";
import { eachSecond } from "./socket.js";

const STALE_S = 5;

/** What the header says about data that is `ageS` seconds old (null: no GPU has reported) after `waitedS` without news. */
export function freshness(ageS, connected, waitedS) {
  if (ageS == null && waitedS < STALE_S) return { tone: "unknown", stale: false, lead: "Connecting", text: "…" };
  if (ageS == null && connected) return { tone: "unknown", stale: false, lead: "Live, ", text: "no GPU reports" };
  if (ageS == null) return { tone: "busy", stale: true, lead: "Data ", text: "not arriving" };
  const stale = ageS > STALE_S, text = `${ageS < 9.95 ? `${ageS.toFixed(1)}\u00a0s` : span(ageS)} old`;
  return { tone: stale ? "busy" : "healthy", stale, lead: stale ? "Data " : "Live, data ", text };
}

export function start() {
  const box = document.getElementById("data-age");
  if (!box) return;
  const parts = { box, bar: document.getElementById("stale-bar"), lead: box.querySelector(".hide-s"), text: box.querySelector("[data-age-text]") };
  let heardAt = performance.now(); // when an age was told, or the wait for the first began
  eachSecond((ageS, isConnected) => {
    const now = performance.now();
    if (ageS != null) heardAt = now;
    drawAge(parts, freshness(ageS, isConnected, (now - heardAt) / 1000), ageS);
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-reconnect]")) document.dispatchEvent(new CustomEvent("mf:reconnect"));
  });
}

function drawAge({ box, bar, ...words }, { tone, stale, lead, text }, ageS) {
  if (box.className !== `age is-${tone}`) {
    const glyph = Object.values(GPU_LOOKS).find((look) => look.tone === tone).glyph;
    box.className = `age is-${tone}`;
    box.querySelector("svg.g").setAttribute("class", `g is-${tone}`);
    box.querySelector("path").setAttribute("d", GLYPHS[glyph]);
  }
  put(words.lead, lead);
  put(words.text, text);
  if (bar.hidden === stale) bar.hidden = !stale; // its role="alert" is read out once, when it appears
  if (stale) put(bar.querySelector("[data-stale-age]"), ageS == null ? "has sent nothing yet" : `stopped ${ageWord(ageS)}`);
  if (stale || isGuarded) guardDecisions(stale, ageS);
  isGuarded = stale;
}

/** Into the one text of a node; one that is the same is not written again: it would be laid out again. */
function put(node, text) {
  const { firstChild } = node;
  if (firstChild?.nodeType !== Node.TEXT_NODE || node.childNodes.length > 1) node.textContent = text;
  else if (firstChild.data !== text) firstChild.data = text;
}

let isGuarded = false; // some decisions may be closed

/** Closes the decisions marked data-needs-fresh while the data is old, and says why; opens them again after. */
function guardDecisions(stale, ageS) {
  for (const button of document.querySelectorAll("[data-needs-fresh]")) {
    if (stale && !button.disabled) {
      button.disabled = true;
      button.dataset.staleClosed = button.title;
    }
    if (!("staleClosed" in button.dataset)) continue;
    if (stale) {
      button.title = `Data is ${ageS == null ? "missing" : `${span(ageS)} old`}: decide again once it is fresh`;
    } else {
      button.disabled = false;
      button.title = button.dataset.staleClosed;
      delete button.dataset.staleClosed;
    }
  }
}
