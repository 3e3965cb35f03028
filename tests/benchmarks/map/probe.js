// Installed before the page's own scripts: long tasks, what the feed brings, and how long callbacks take by the page's own clock.
(() => {
  const probe = { long: 0, longest: 0, feed: null, spans: null }; // spans: [began, took (µs), whether a message of the feed or of the worker that hears it began it] of each callback, while it is a list
  let isInside = false;

  const timed = (run) => typeof run !== "function" ? run : function (...given) {
    if (isInside || probe.spans === null) return run.apply(this, given); // nothing of its own beside a trace
    const began = performance.now();
    isInside = true;
    try {
      return run.apply(this, given);
    } finally {
      queueMicrotask(() => queueMicrotask(() => { // after the promises that it settled
        isInside = false;
        probe.spans?.push([began * 1000, (performance.now() - began) * 1000, this instanceof WebSocket || this instanceof Worker]);
      }));
    }
  };

  const listen = EventTarget.prototype.addEventListener;
  for (const source of [WebSocket, Worker]) {
    source.prototype.addEventListener = function (name, run, options) { listen.call(this, name, name === "message" ? timed(run) : run, options); };
  }
  for (const name of ["setTimeout", "setInterval", "requestAnimationFrame"]) {
    const begin = globalThis[name];
    globalThis[name] = (run, ...given) => begin(timed(run), ...given);
  }

  document.addEventListener("mf:feed", ({ detail }) => { probe.feed = detail; });
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) {
      probe.long += 1;
      probe.longest = Math.max(probe.longest, duration);
    }
  }).observe({ type: "longtask" });
  globalThis.__probe = probe;
})();
