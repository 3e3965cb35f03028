// The inbox: opens an entry beside the list, moves with J and K, and reads both panes again when something changed.
const POLL_MS = 10_000; // in case a word of a change was lost
const SETTLE_MS = 150; // several changes at once are read once
const PHONE = "(max-width: 760px)";

export function mount(element) {
  const changed = debounce(() => refresh(), SETTLE_MS);
  document.addEventListener("mf:event", ({ detail }) => detail.op === "evictions" && changed());
  document.body.addEventListener("mf-evictions", changed);
  setInterval(() => document.hidden || refresh(), POLL_MS);
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
  const opened = document.getElementById("opened"), id = opened?.dataset.eviction;
  read(id ? `/evictions/${id}/` : location.href, "#inbox");
  if (id) read(`/evictions/${id}/`, "#eviction-live");
  else if (opened && !opened.querySelector("form")) read(location.href, "#opened");
}

function read(url, target) {
  if (document.querySelector(target)) window.htmx.ajax("GET", url, { target, swap: "outerHTML" });
}

function onClick(event) {
  const link = event.target.closest("a.e");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || matchMedia(PHONE).matches) return;
  event.preventDefault();
  open(link);
}

/** Shows an entry in the right pane; its address becomes the page's. */
function open(link) {
  for (const other of document.querySelectorAll("a.e[aria-current]")) other.removeAttribute("aria-current");
  link.setAttribute("aria-current", "true");
  link.scrollIntoView({ block: "nearest" });
  history.pushState({}, "", link.href);
  window.htmx.ajax("GET", link.href, { target: "#opened", swap: "outerHTML" }).then(() => {
    document.title = document.getElementById("opened")?.dataset.title ?? document.title;
  });
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
