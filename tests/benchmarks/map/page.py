"""What the page does with its time, counted from inside and by Chromium itself.

Script of a frame: all that listeners of the socket and callbacks of animation frames ran between
one binary message and the next. Long tasks: as the browser reports them (more than 50 ms).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from playwright.sync_api import CDPSession, Page

MIB: Final = 1 << 20
# Installed before the page's own scripts; its arrays have their size from the start, so that what
# measures does not grow the heap.
PROBE: Final = """(() => {
  const MOST = 4096, probe = { scripts: new Float64Array(MOST), frames: 0, bytes: 0 };
  Object.assign(probe, { long: 0, longest: 0, painted: 0 });
  globalThis.__probe = probe;
  let spent = 0;
  const timed = (work) => function (...given) {
    const began = performance.now();
    try { return work.apply(this, given); } finally { spent += performance.now() - began; }
  };
  const listen = WebSocket.prototype.addEventListener;
  WebSocket.prototype.addEventListener = function (name, handle, options) {
    if (name !== "message") return listen.call(this, name, handle, options);
    const work = timed(handle);
    return listen.call(this, name, (event) => {
      if (typeof event.data !== "string") {
        probe.scripts[probe.frames % MOST] = spent;
        probe.frames += 1;
        probe.bytes += event.data.byteLength;
        spent = 0;
      }
      work.call(this, event);
    }, options);
  };
  const nextFrame = requestAnimationFrame;
  globalThis.requestAnimationFrame = (work) => nextFrame(timed(work));
  const paint = () => { probe.painted += 1; nextFrame(paint); };
  nextFrame(paint);
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) {
      probe.long += 1;
      probe.longest = Math.max(probe.longest, duration);
    }
  }).observe({ type: "longtask" });
})()"""
RESET: Final = (
    "Object.assign(__probe, { frames: 0, bytes: 0, long: 0, longest: 0, painted: 0 }), undefined"
)
READ: Final = """(() => {
  const { frames, bytes, long, longest, painted } = __probe, kept = Math.min(frames, __probe.scripts.length);
  const sorted = __probe.scripts.slice(1, kept).sort(), at = (share) => sorted[Math.floor((sorted.length - 1) * share)] ?? null;
  return { frames, bytes, long, longest, painted, p50: at(0.5), p95: at(0.95), most: at(1) };
})()"""  # noqa: E501


@dataclass
class Watched:
    """A page of the map with its probe."""

    page: Page
    cdp: CDPSession

    def reset(self) -> None:
        self.page.evaluate(RESET)

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate(READ)
        return found

    def heap_mib(self) -> float:
        """Of scripts and of the buffers that they hold, after a collection."""
        for _ in range(3):
            self.cdp.send("HeapProfiler.collectGarbage")
        used = self.cdp.send("Runtime.getHeapUsage")
        return float(used["usedSize"] + used.get("backingStorageSize", 0)) / MIB

    def rest(self, seconds: float) -> None:
        """Let the page live, without asking it anything."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.page.wait_for_timeout(min(left, 5.0) * 1000)


def panning_fps(watched: Watched, seconds: float) -> float:
    """Animation frames a second while the map is dragged to and fro, zoomed in.

    Headless Chromium paints in software, at 60 frames a second at most; a frame counts when the
    browser had time for it, whatever a screen would have shown.
    """
    page = watched.page
    canvas = page.locator("canvas[data-part=map]")
    box = canvas.bounding_box()
    assert box is not None
    canvas.focus()
    for _ in range(2):
        page.keyboard.press("+")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    watched.rest(2)
    watched.reset()
    began, step = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        step += 1
        page.mouse.move(x + 200 * _wave(step, 60), y + 120 * _wave(step, 84))
        time.sleep(0.008)
    took = time.monotonic() - began
    painted = watched.read()["painted"]
    page.mouse.up()
    return float(painted) / took


def _wave(step: int, period: int) -> float:
    """To and fro between -1 and 1."""
    part = step % period / period
    return 4 * part - 1 if part < 0.5 else 3 - 4 * part
