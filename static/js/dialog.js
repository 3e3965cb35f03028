// Opens the page behind <a data-dialog> as a dialog: the server answers an htmx request with a fragment.
import { el } from "./kit.js";

export function start() {
  const dialog = document.getElementById("dialog"), body = document.getElementById("dialog-body");
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-dialog]");
    if (link && !link.hasAttribute("disabled") && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      load(dialog, body, link);
    }
    if (event.target.closest("[data-close]")) event.target.closest("dialog")?.close();
    if (event.target.matches("dialog.dlg")) event.target.close(); // the ground around it
  });
  body.addEventListener("htmx:afterSwap", () => name(body));
  document.body.addEventListener("mf:close-dialog", () => dialog.close()); // HX-Trigger of a finished action
}

function load(dialog, body, link) {
  dialog.classList.toggle("wide", link.dataset.dialog === "wide");
  body.replaceChildren(document.getElementById("dialog-wait").content.cloneNode(true));
  if (!dialog.open) dialog.showModal();
  window.htmx.ajax("GET", link.dataset.href ?? link.getAttribute("href"), { target: body, swap: "innerHTML" })
    .then(() => body.querySelector(".wait") && failed(body));
}

function name(body) {
  const title = body.querySelector("h2");
  if (title) title.id = "dialog-title";
  body.querySelector("[autofocus]")?.focus();
}

function failed(body) {
  body.querySelector(".wait").replaceChildren(el("p", {}, "The console did not answer. Nothing was done; close this and try again."));
}
