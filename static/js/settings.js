// A secret that is shown once, with a button that copies it.
import { toast } from "./toasts.js";

export function mount(element) {
  const secret = element.querySelector("[data-secret]").textContent.trim();
  element.querySelector("[data-copy]").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(secret);
      toast("Copied.", "healthy");
    } catch {
      getSelection().selectAllChildren(element.querySelector("[data-secret]"));
      toast("The browser does not let a page copy here; it is selected, press Ctrl C.", "busy");
    }
  });
}
