// The header of every page: age of the data, what is closed while it is old, theme, toasts, keys.
import { age as ageWord, span } from "./figures.js";
import { GLYPHS, GPU_LOOKS } from "./glyphs.js";
import { el, icon } from "./kit.js";

export const STALE_S = 5;

/** What the header says about data that is `ageS` seconds old (null: no GPU has reported) after `waitedS` without news. */
export function freshness(ageS, connected, waitedS) {
  if (ageS == null && waitedS < STALE_S) return { tone: "unknown", stale: false, lead: "Connecting", text: "…" };
  if (ageS == null && connected) return { tone: "unknown", stale: false, lead: "Live, ", text: "no GPU reports" };
  if (ageS == null) return { tone: "busy", stale: true, lead: "Data ", text: "not arriving" };
  const stale = ageS > STALE_S, text = `${ageS < 9.95 ? `${ageS.toFixed(1)}\u00a0s` : span(ageS)} old`;
  return { tone: stale ? "busy" : "healthy", stale, lead: stale ? "Data " : "Live, data ", text };
}

export function start() {
  watchAge();
  themes();
  toasts();
  startKeys();
}

function watchAge() {
  if (!document.getElementById("data-age")) return;
  const live = { ageS: null, connected: false, at: performance.now() }; // at: when ageS was true, or when the wait for it began
  const draw = () => {
    const waitedS = (performance.now() - live.at) / 1000, ageS = live.ageS == null ? null : live.ageS + waitedS;
    drawAge(freshness(ageS, live.connected, waitedS), ageS);
  };
  document.addEventListener("mf:live", ({ detail }) => {
    const at = detail.age_s == null ? live.at : performance.now();
    Object.assign(live, { ageS: detail.age_s, connected: detail.connected, at });
    draw();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-reconnect]")) document.dispatchEvent(new CustomEvent("mf:reconnect"));
  });
  setInterval(draw, 1000);
}

function drawAge({ tone, stale, lead, text }, ageS) {
  const box = document.getElementById("data-age"), bar = document.getElementById("stale-bar");
  const glyph = Object.values(GPU_LOOKS).find((look) => look.tone === tone).glyph;
  box.className = `age is-${tone}`;
  box.querySelector("svg.g").setAttribute("class", `g is-${tone}`);
  box.querySelector("path").setAttribute("d", GLYPHS[glyph]);
  box.querySelector(".hide-s").textContent = lead;
  box.querySelector("[data-age-text]").textContent = text;
  if (bar.hidden === stale) bar.hidden = !stale; // its role="alert" is read out once, when it appears
  bar.querySelector("[data-stale-age]").textContent = ageS == null ? "has sent nothing yet" : `stopped ${ageWord(ageS)}`;
  guardDecisions(stale, ageS);
}

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

function themes() {
  const draw = () => {
    for (const button of document.querySelectorAll("button[data-theme-choice]")) {
      button.setAttribute("aria-pressed", String(button.dataset.themeChoice === document.documentElement.dataset.themeChoice));
    }
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-theme-choice]");
    if (!button) return;
    document.dispatchEvent(new CustomEvent("mf:theme-choice", { detail: button.dataset.themeChoice }));
    draw();
  });
  draw();
}

// ---- toasts ----

/** Says what happened. An error stays until it is dismissed. */
export function toast(text, tone = "") {
  const close = el("button", { class: "b ghost sm icon", type: "button", "data-dismiss": true, "aria-label": "Dismiss" }, icon("x"));
  const item = el("div", { class: `toast-x${tone ? ` is-${tone}` : ""}` }, el("p", {}, text), close);
  document.getElementById("toasts").append(item);
  fade(item);
}

function fade(item) {
  if (!item.classList.contains("is-overloaded")) setTimeout(() => item.remove(), 8000);
}

function toasts() {
  document.querySelectorAll("#toasts > .toast-x").forEach(fade);
  document.addEventListener("click", (event) => event.target.closest("[data-dismiss]")?.closest(".toast-x").remove());
  document.body.addEventListener("mf:toast", ({ detail }) => toast(detail.text, detail.tone)); // HX-Trigger
  document.body.addEventListener("htmx:sendError", () => toast("The console did not answer, so nothing was sent. Check the connection and try again.", "overloaded"));
  document.body.addEventListener("htmx:responseError", ({ detail }) => toast(refusal(detail.xhr), "overloaded"));
}

/** What an error answer means to the person who asked. The page of a refusal carries its reason in [data-reason]. */
export function refusal({ status, responseText = "" }) {
  const page = new DOMParser().parseFromString(responseText, "text/html");
  const reason = page.querySelector("[data-reason]")?.textContent.trim();
  if (reason) return reason;
  if (status === 503) return "The console cannot reach its database or Redis. Try again in a moment.";
  return `The console could not do it (${status}). Its log has the cause; nothing more is known here.`;
}

// ---- keys ----

const GOTO = { o: "overview", m: "map", e: "evictions", j: "jobs", s: "services", p: "policies" };
let pending = false; // "g" was pressed, waiting for the page's letter

/** Whether this key press is a command, not text being typed. */
export function isCommand(event) {
  const target = event.target;
  const typing = target?.matches?.("input:not([type=checkbox]):not([type=radio]), select, textarea, [contenteditable]");
  return !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
}

function startKeys() {
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", (event) => event.target.closest("[data-show-keys]") && showKeys());
}

function onKey(event) {
  if (!isCommand(event) || document.querySelector("dialog[open]")) return;
  if (pending) { pending = false; return goTo(event); }
  if (event.key === "?") return showKeys();
  if (event.key === "g") { pending = true; setTimeout(() => { pending = false; }, 1200); return; }
  const target = [...document.querySelectorAll(`[data-key="${CSS.escape(event.key)}"]`)].find((node) => node.offsetParent && !node.disabled);
  if (!target) return;
  event.preventDefault();
  target.matches("input, select, textarea") ? target.focus() : target.click();
}

function goTo(event) {
  const name = GOTO[event.key], link = name && document.querySelector(`.nav1 > a[data-page="${name}"]`);
  if (link) { event.preventDefault(); link.click(); }
}

/** Keys of the page: elements with data-key and data-key-does, and lists in <script type="application/json" data-keys>. */
function pageKeys() {
  const marked = [...document.querySelectorAll("[data-key][data-key-does]")].map((node) => ({ keys: [node.dataset.key], does: node.dataset.keyDoes }));
  const listed = [...document.querySelectorAll("script[data-keys]")].flatMap((node) => JSON.parse(node.textContent));
  const seen = new Set();
  return [...listed, ...marked].filter(({ does }) => !seen.has(does) && seen.add(does));
}

const EVERYWHERE = [
  { keys: ["?"], does: "this list" }, { keys: ["g", "o"], does: "go to Overview" }, { keys: ["g", "m"], does: "go to Map" },
  { keys: ["g", "e"], does: "go to Evictions" }, { keys: ["g", "j"], does: "go to Jobs" }, { keys: ["g", "p"], does: "go to Policies" },
];

function showKeys() {
  const row = ({ keys, does }) => el("div", {}, el("dt", {}, does), el("dd", {}, ...keys.flatMap((key) => [el("kbd", {}, key), " "])));
  document.getElementById("keys-list").replaceChildren(...[...pageKeys(), ...EVERYWHERE].map(row));
  document.getElementById("keys").showModal();
}
