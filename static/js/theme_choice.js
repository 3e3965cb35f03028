// The theme buttons of the user menu; theme.js keeps the choice.

export function start() {
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
