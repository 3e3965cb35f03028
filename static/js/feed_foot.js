// The foot of every page: what the live feed of this tab costs.

export function start() {
  const foot = document.getElementById("feed-foot"), rate = foot?.querySelector("[data-part=rate]");
  if (!foot) return;
  document.addEventListener("mf:feed", ({ detail }) => {
    foot.hidden = false;
    const text = rateText(detail);
    if (rate.textContent !== text) rate.textContent = text;
  });
}

/** "12.4 kB/s in 1.0 frames/s"; a tab without a map gets no frames. */
export function rateText({ bytes_s: bytes, frames_s: frames }) {
  const size = `${(bytes / 1000).toFixed(1)}\u00a0kB/s`;
  return frames ? `${size} in ${frames.toFixed(1)} frames/s` : size;
}
