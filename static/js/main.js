// The one entry: starts the shell, then the module that each element names (<div data-module="overview">).
import * as age from "./age.js";
import * as dialog from "./dialog.js";
import * as feedFoot from "./feed_foot.js";
import * as keys from "./keys.js";
import * as liveValues from "./live_values.js";
import * as menu from "./menu.js";
import * as socket from "./socket.js";
import * as themeChoice from "./theme_choice.js";
import * as toasts from "./toasts.js";

for (const part of [age, toasts, keys, menu, dialog, themeChoice, liveValues, feedFoot, socket]) part.start();

const mounted = new WeakSet();

/** Imports the module of each marked element under `root` and hands it the element: mount(element). */
function wire(root) {
  for (const node of root.querySelectorAll("[data-module]")) {
    if (mounted.has(node)) continue;
    mounted.add(node);
    import(`./${node.dataset.module}.js`).then((module) => module.mount(node));
  }
}

wire(document);
document.addEventListener("change", (event) => event.target.matches("[data-submit]") && event.target.form.requestSubmit());
document.body.addEventListener("htmx:load", (event) => wire(event.target.parentElement ?? document));
