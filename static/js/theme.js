// Runs before the first paint, as a plain script in <head>, so that a page never flashes in the other theme.
// ?theme=dark in the address wins, then the person's choice, then the system's.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const asked = new URLSearchParams(location.search).get("theme");
    const choice = asked ?? localStorage.getItem("mf-theme") ?? "auto";
    const theme = choice === "dark" || (choice !== "light" && system.matches) ? "dark" : "light";
    document.documentElement.dataset.themeChoice = choice;
    if (document.documentElement.dataset.bsTheme === theme) return;
    document.documentElement.dataset.bsTheme = theme;
    document.dispatchEvent(new CustomEvent("mf:theme", { detail: { theme } }));
  };
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("mf:theme-choice", (event) => {
    localStorage.setItem("mf-theme", event.detail);
    const url = new URL(location.href);
    url.searchParams.delete("theme");
    history.replaceState(history.state, "", url);
    apply();
  });
})();
