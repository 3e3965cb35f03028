// Keys: data-key on an element presses it, "g" and a letter goes to a page, "?" lists what a page knows.
import { el } from "./kit.js";

const GOTO = { o: "overview", m: "map", e: "evictions", j: "jobs", s: "services", p: "policies" };
let pending = false; // "g" was pressed, waiting for the page's letter

/** Whether this key press is a command, not text being typed. */
export function isCommand(event) {
  const target = event.target;
  const typing = target?.matches?.("input:not([type=checkbox]):not([type=radio]):not([type=range]), select, textarea, [contenteditable]");
  return !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
}

export function start() {
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", (event) => event.target.closest("[data-show-keys]") && showKeys());
}

function onKey(event) {
  if (!isCommand(event) || document.querySelector("dialog[open]")) return;
  if (pending) { pending = false; return goTo(event); }
  if (event.key === "?") return showKeys();
  if (event.key === "g") { pending = true; setTimeout(() => { pending = false; }, 1200); return; }
  const target = [...document.querySelectorAll(`[data-key="${CSS.escape(event.key)}"]`)].find((node) => node.offsetParent && !node.disabled && !node.closest("[inert]"));
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
