"""What a page of the map does with its time and memory, as Chromium itself tells it.

*Script of a frame* is all JavaScript that a thread ran from the first message of a second of the
live feed to that of the next, whatever it was for: the one frame of that second, the summary,
timers, and what the browser did inside of it (layout that script waited for, collections). The
feed is heard by the worker, but its messages begin the seconds of both threads.
Chromium's trace gives two times for it, and both are kept: of the processor (`tdur`, what the
thread itself used) and of the clock (`dur`, with all moments in which a machine that is busy with
something else let it wait). Threads are told apart: the page's own, which people wait for, and its
worker's, which hears the feed and paints the map.

Tracing costs time of its own, which both hold. So the same is also told without it: the page
itself reads its clock before and after each callback of its socket, its worker and its timers, with
the promises that these settle.

*Long tasks* are those of the page's thread over 50 ms, as `PerformanceObserver` reports them.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, CDPSession, Page

MIB: Final = 1 << 20
# A second of the feed is a summary and a frame; what comes later than this begins the next one.
SECOND_US: Final = 750_000
PROBE: Final = (Path(__file__).parent / "probe.js").read_text()
RESET: Final = "Object.assign(__probe, { long: 0, longest: 0 }), undefined"
BEGIN_SPANS: Final = "__probe.spans = [], undefined"
TAKE_SPANS: Final = "(() => { const { spans } = __probe; __probe.spans = null; return spans; })()"
# The time of one fixed loop, in ms: over and over, and after a second of sleep each.
LOOP: Final = """(async () => {
  const took = () => {
    const began = performance.now();
    let sum = 0;
    for (let i = 0; i < 1e6; i += 1) sum = (sum * 31 + i) | 0;
    return performance.now() - began + sum * 0;
  };
  const awake = Array.from({ length: 400 }, took).slice(300), asleep = [];
  for (let i = 0; i < 8; i += 1) {
    await new Promise((wake) => setTimeout(wake, 1000));
    asleep.push(took());
  }
  return [awake, asleep].map((times) => times.reduce((sum, each) => sum + each) / times.length);
})()"""
# Drags the map to and fro, one step in each frame of the screen that the page has time for: input
# from outside comes more seldom. Counts these, and in the worker the pictures that it painted.
PAN: Final = """(() => {
  const canvas = document.querySelector("canvas[data-part=map]"), box = canvas.getBoundingClientRect();
  const wave = (step, period) => { const part = step % period / period; return part < 0.5 ? 4 * part - 1 : 3 - 4 * part; };
  globalThis.__screens = 0;
  const move = () => {
    const step = (globalThis.__screens += 1);
    const clientX = box.x + box.width / 2 + 200 * wave(step, 60), clientY = box.y + box.height / 2 + 120 * wave(step, 84);
    canvas.dispatchEvent(new PointerEvent("pointermove", { pointerId: 1, pointerType: "mouse", clientX, clientY }));
    requestAnimationFrame(move);
  };
  requestAnimationFrame(move);
})()"""  # noqa: E501
COUNT_PAINTED: Final = """(() => {
  globalThis.__screens = 0;
  const next = requestAnimationFrame;
  globalThis.requestAnimationFrame = (paint) => next((at) => { globalThis.__screens += 1; paint(at); });
})()"""  # noqa: E501

CATEGORIES: Final = ["devtools.timeline", "v8.execute", "__metadata"]
SCRIPT: Final = frozenset({"FunctionCall", "EvaluateScript", "RunMicrotasks", "v8.run"})
RECEIVED: Final = "WebSocketReceive"
PAGE, WORKER = "CrRendererMain", "DedicatedWorker thread"

Event = dict[str, Any]
OwnSpan = tuple[float, float, bool]  # when it began and how long it took, µs; by a message or not


@dataclass
class Watched:
    """A page of the map with its probe."""

    browser: Browser
    page: Page
    cdp: CDPSession
    events: list[Event] = field(default_factory=list)

    def reset(self) -> None:
        self.page.evaluate(RESET)

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate("__probe")
        return found

    def loop_ms(self) -> tuple[float, float]:
        """Of a fixed loop in the page: on a core that is awake, and on one that slept before."""
        awake, asleep = self.page.evaluate(LOOP)
        return awake, asleep

    def own_clock(self, seconds: float) -> list[OwnSpan]:
        """What the page's own clock says of its callbacks meanwhile."""
        self.page.evaluate(BEGIN_SPANS)
        self.rest(seconds)
        spans: list[OwnSpan] = self.page.evaluate(TAKE_SPANS)
        return spans

    def heap_mib(self) -> float:
        """Of scripts and of the buffers that they hold, in both threads, after a collection."""
        for _ in range(3):
            self.cdp.send("HeapProfiler.collectGarbage")
        used = self.cdp.send("Runtime.getHeapUsage")
        return _mib(used) + self._worker_heap_mib()

    def _worker_heap_mib(self) -> float:
        """A worker has no session of its own here: its messages go through the page's."""
        answers: list[Event] = []
        heard = self.cdp.on
        heard("Target.attachedToTarget", lambda event: answers.append(event))
        heard("Target.receivedMessageFromTarget", lambda event: answers.append(event))
        attach = {"waitForDebuggerOnStart": False, "flatten": False}
        self.cdp.send("Target.setAutoAttach", {"autoAttach": True, **attach})
        total = 0.0
        for session in [each["sessionId"] for each in answers if "targetInfo" in each]:
            for number, method in enumerate(
                ["HeapProfiler.collectGarbage", "Runtime.getHeapUsage"]
            ):
                message = json.dumps({"id": number, "method": method})
                self.cdp.send(
                    "Target.sendMessageToTarget", {"sessionId": session, "message": message}
                )
            self.page.wait_for_timeout(500)
        for each in answers:
            total += _mib(json.loads(each.get("message", "{}")).get("result", {}))
        self.cdp.send("Target.setAutoAttach", {"autoAttach": False, **attach})
        return total

    def rest(self, seconds: float) -> None:
        """Let the page live, without asking it anything."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.page.wait_for_timeout(min(left, 5.0) * 1000)

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Keeps in `events` the scripts that ran meanwhile."""
        tracing, done = self.browser.new_browser_cdp_session(), []
        tracing.on("Tracing.dataCollected", lambda data: self.events.extend(_kept(data["value"])))
        tracing.on("Tracing.tracingComplete", lambda _: done.append(True))
        config = {"includedCategories": CATEGORIES, "excludedCategories": ["*"]}
        tracing.send("Tracing.start", {"transferMode": "ReportEvents", "traceConfig": config})
        yield
        tracing.send("Tracing.end")
        while not done:
            self.page.wait_for_timeout(100)
        tracing.detach()


def _mib(usage: Event) -> float:
    return float(usage.get("usedSize", 0) + usage.get("backingStorageSize", 0)) / MIB


def _kept(events: Iterable[Event]) -> Iterator[Event]:
    wanted = SCRIPT | {RECEIVED, "thread_name"}
    return (event for event in events if event["name"] in wanted)


def scripts_of_frames(events: list[Event], thread: str, time_key: str) -> list[float]:
    """Milliseconds of script in threads of this name from each frame to the next.

    `time_key` is "tdur" for the processor's time and "dur" for the clock's.
    """
    frames = list(_seconds(event["ts"] for event in events if event["name"] == RECEIVED))
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }
    pages = {event["pid"] for event in events if event["name"] == RECEIVED}
    mine = {at for at, name in names.items() if name == thread and at[0] in pages}
    spans = sorted(
        (event["ts"], event.get("dur", 0), event.get(time_key, 0), (event["pid"], event["tid"]))
        for event in events
        if event["name"] in SCRIPT and (event["pid"], event["tid"]) in mine
    )
    return _sums(list(_outermost(spans)), frames)


def own_clock_of_frames(spans: list[OwnSpan]) -> list[float]:
    """Milliseconds of callbacks from each frame to the next, by the page's own clock."""
    frames = list(_seconds(began for began, _, is_received in spans if is_received))
    return _sums([(began, took) for began, took, _ in spans], frames)


def _seconds(received: Iterable[float]) -> Iterator[float]:
    """When the first message of each second came, of all times of messages in µs."""
    began = -math.inf
    for at in sorted(received):
        if at - began >= SECOND_US:
            began = at
            yield at


Span = tuple[float, float, float, tuple[int, int]]


def _outermost(spans: Iterable[Span]) -> Iterator[tuple[float, float]]:
    """When each began that is in no other, and its time; in µs."""
    end: dict[tuple[int, int], float] = {}
    for began, lasted, took, thread in spans:
        if began >= end.get(thread, 0):
            end[thread] = began + lasted
            yield began, took


def _sums(scripts: list[tuple[float, float]], frames: list[float]) -> list[float]:
    """In ms."""
    return [
        sum(took for began, took in scripts if first <= began < last) / 1000
        for first, last in pairwise(frames)
    ]


def panning_fps(watched: Watched, seconds: float) -> float:
    """Frames of the screen a second while the map is dragged to and fro, zoomed in.

    The fewer of those that the page had time for and those that the worker painted. Headless
    Chromium paints in software, 60 a second at most; a frame counts when there was time for it,
    whatever a screen would have shown.
    """
    page = watched.page
    canvas = page.locator("canvas[data-part=map]")
    box = canvas.bounding_box()
    assert box is not None
    canvas.focus()
    for _ in range(2):
        page.keyboard.press("+")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    asks: list[Callable[[str], Any]] = [page.evaluate, *(each.evaluate for each in page.workers)]
    for ask in asks[1:]:
        ask(COUNT_PAINTED)
    page.evaluate(PAN)
    watched.rest(2)
    before = [ask("__screens") for ask in asks]
    began = time.monotonic()
    watched.rest(seconds)
    took = time.monotonic() - began
    screens = [ask("__screens") - was for ask, was in zip(asks, before, strict=True)]
    page.mouse.up()
    return float(min(screens)) / took
