// Short messages in the corner: what was done, or what failed and the way out.
import { el, icon } from "./kit.js";

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

export function start() {
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
