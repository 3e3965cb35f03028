// <details class="menu"> works without this module; here it also closes by Escape, by a click elsewhere, and walks by arrow keys.
const open = () => [...document.querySelectorAll("details.menu[open]")];

export function start() {
  document.addEventListener("click", (event) => {
    for (const menu of open()) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", onKey);
  document.addEventListener("focusin", (event) => {
    for (const menu of open()) if (!menu.contains(event.target)) menu.open = false;
  });
}

function onKey(event) {
  const menu = document.activeElement?.closest("details.menu");
  if (event.key === "Escape") close(menu);
  if (!menu || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
  event.preventDefault();
  menu.open = true;
  const items = [...menu.querySelectorAll(":scope > div a, :scope > div button")];
  const at = items.indexOf(document.activeElement), step = event.key === "ArrowDown" ? 1 : -1;
  items[(at + step + items.length) % items.length]?.focus();
}

function close(menu) {
  for (const one of open()) one.open = false;
  menu?.querySelector("summary").focus();
}
