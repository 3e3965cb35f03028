// The inbox: opens an entry beside the list, moves with J and K, and reads both panes again when something changed.
const POLL_MS = 10_000; // in case a word of a change was lost
const SETTLE_MS = 150; // several changes at once are read once
const PHONE = "(max-width: 760px)";

export function mount(element) {
  const changed = debounce(() => refresh(), SETTLE_MS);
  document.addEventListener("mf:event", ({ detail }) => detail.op === "evictions" && changed());
  document.body.addEventListener("mf-evictions", changed);
  setInterval(() => document.hidden || refresh(), POLL_MS);
  element.addEventListener("htmx:beforeSwap", onAnswer);
  element.addEventListener("click", onClick);
  element.addEventListener("keydown", onTyping);
  document.addEventListener("keydown", onKey);
  addEventListener("popstate", () => location.reload());
}

/** The entry `step` places from the one that is open; null at either end. */
export function neighbour(links, step) {
  const here = links.findIndex((link) => link.hasAttribute("aria-current"));
  if (here < 0) return links[0] ?? null;
  return links[here + step] ?? null;
}

function refresh() {
  inTurn(async () => {
    const opened = document.getElementById("opened"), id = opened?.dataset.eviction;
    const here = id ? `/evictions/${id}/` : location.href;
    await read(here, "#inbox");
    if (wanted) mark(wanted);
    if (id) await read(here, "#eviction-live");
    else if (opened && !opened.querySelector("form")) await read(here, "#opened");
  });
}

async function read(url, target) {
  if (document.querySelector(target)) await window.htmx.ajax("GET", url, { target, swap: "outerHTML" });
}

let turn = Promise.resolve(), wanted = "";

/** Both panes are asked for one after the other, so that no late answer shows what is no longer chosen. */
function inTurn(ask) {
  turn = turn.then(ask).catch(() => {}); // htmx has said what failed
}

/** The answer to a decision that is under way has the last word, not what was read meanwhile. */
function onAnswer({ detail }) {
  const decides = detail.target.querySelector("button.htmx-request");
  if (decides && detail.requestConfig.verb === "get" && detail.target.id === "eviction-live") detail.shouldSwap = false;
}

function onClick(event) {
  const link = event.target.closest("a.e");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || matchMedia(PHONE).matches) return;
  event.preventDefault();
  open(link);
}

/** Shows an entry in the right pane; its address becomes the page's. Until it is there, nothing can be decided. */
function open(link) {
  mark(link.href);
  link.scrollIntoView({ block: "nearest" });
  history.pushState({}, "", link.href);
  document.getElementById("opened").inert = true;
  wanted = link.href;
  inTurn(() => wanted === link.href && show(link.href));
}

async function show(url) {
  await read(url, "#opened");
  const opened = document.getElementById("opened");
  opened.inert = wanted !== url; // another was chosen meanwhile
  document.title = opened.dataset.title ?? document.title;
}

function mark(url) {
  for (const link of document.querySelectorAll("a.e")) link.href === url ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input:not([type=radio]), select, textarea")) return;
  const step = { j: 1, k: -1 }[event.key];
  const link = step && neighbour([...document.querySelectorAll("a.e")], step);
  if (link) link.click();
}

/** Enter in the note decides nothing: the decision is a button. */
function onTyping(event) {
  if (event.key === "Enter" && event.target.matches("input[name=note]")) event.preventDefault();
}

function debounce(act, ms) {
  let timer;
  return () => { clearTimeout(timer); timer = setTimeout(act, ms); };
}
