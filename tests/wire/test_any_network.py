"""Whatever is lost, late, doubled or slow between server and tab: the page's own code ends at what
the server shows, and says nothing of what it does not keep current."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import hypothesis
import numpy as np
import pytest

from console.telemetry.frames import Detail
from console.telemetry.latest import MISSING, Bytes, Field, Look
from console.telemetry.seat import Seat
from console.telemetry.stage import Shown, Stage
from console.telemetry.watch import VALUES, Watch
from tests.chromium import packaged_node
from tests.console.telemetry.scenes import layout

NODES, GPUS = 3, 4
IDS: Final = range(11, 11 + NODES * GPUS)
SECONDS: Final = 25


class Screen:
    """tests/wire/screen.js in Node.js."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("screen.js")
        self._node = subprocess.Popen(
            [packaged_node(), str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **body: Any) -> Any:
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.write(json.dumps(body) + "\n")
        self._node.stdin.flush()
        return json.loads(self._node.stdout.readline())

    def close(self) -> None:
        self._node.communicate()


@pytest.fixture(scope="module")
def screen() -> Iterator[Screen]:
    made = Screen()
    yield made
    made.close()


class Server:
    """A stage behind a seat, without sockets and clocks."""

    def __init__(self, rng: Random) -> None:
        self.rng, self.now = rng, 1_000.0
        self.stage = Stage(layout(NODES, GPUS), self._cells(None), rng.randrange(1 << 20))
        self.seat = Seat()

    def _cells(self, before: Bytes | None) -> Bytes:
        out = before
        if out is None:
            out = np.full((len(IDS), len(Field)), MISSING, np.uint8)
            out[:, [Field.LOOK, Field.STATE]] = 0
        for row in range(len(IDS)):
            for field in Field:
                if self.rng.random() < 0.4:
                    out[row, field] = self._byte(field, int(out[row, field]))
        return out

    def _byte(self, field: Field, before: int) -> int:
        if field is Field.LOOK:
            return self.rng.choice(list(Look))
        if field is Field.STATE:
            return self.rng.randrange(7)
        near = min(254, max(1, before + self.rng.choice([-1, 1])))
        return self.rng.choice([0, MISSING, self.rng.randrange(256), near, near])

    def turn(self) -> None:
        self.now += 1
        before = self.stage._gpus.cells.T.copy()
        self.stage.turn(self._cells(before), self.now)
        self.seat.offer()

    def watch(self, number: int) -> dict[str, Any]:
        """Turns the seat to something else; answers what a page then expects."""
        detail = self.rng.choice([Detail.GPUS, Detail.GPUS, Detail.NODES])
        fields = frozenset(self.rng.sample(VALUES, self.rng.randrange(4)))
        some, closer = self._some(), self._some()
        asked = self.rng.choice([None, some])
        self.seat.turn_to(number, Watch(detail, fields, asked and _ranges(asked), _ranges(closer)))
        nodes = detail is Detail.NODES
        return {
            "number": number, "fields": [field.name for field in fields],
            "gpus": None if nodes else asked, "closer": None if nodes else closer,
        }  # fmt: skip

    def _some(self) -> list[int]:
        return sorted(self.rng.sample(IDS, self.rng.randrange(1, 6)))

    def take(self) -> list[bytes]:
        return [each for each in self.seat.take(self, self.now) if isinstance(each, bytes)]

    def frame(
        self, pools: None, number: int, watch: Watch, shown: Shown | None
    ) -> tuple[Shown, bytes] | None:
        made = self.stage.frame(pools, number, watch, shown)
        if made is None or watch.detail is None:
            return None
        return Shown(5, watch.detail, number, self.stage.sequence), made[1]

    def summary(self, pools: None) -> str:
        return "{}"

    def expected(self) -> list[list[int | None]]:
        watch = self.seat.watch
        sheet, _ = self.stage._sheet(self.stage.view(None), watch.detail)
        columns = sheet.cells.T.tolist()
        near = set(_inside(watch.closer)) if watch.detail is Detail.GPUS else set()
        far = set(IDS) if watch.gpus is None else set(_inside(watch.gpus))
        for row, values in enumerate(columns):
            for field in VALUES:
                wide = field in watch.fields and (watch.detail is Detail.NODES or IDS[row] in far)
                if not wide and (watch.detail is Detail.NODES or IDS[row] not in near):
                    values[field] = None
        return columns


def _ranges(ids: list[int]) -> tuple[int, ...]:
    return tuple(id for id in ids for _ in range(2))


def _inside(ranges: tuple[int, ...]) -> tuple[int, ...]:
    return ranges[::2]


def play(rng: Random, screen: Screen) -> None:
    server, late = Server(rng), list[bytes]()
    screen.ask(op="layout", document=json.loads(server.stage.layout.document))
    number = 0
    for second in range(SECONDS):
        server.turn()
        if second == 0 or rng.random() < 0.2:
            number += 1
            screen.ask(op="expect", **server.watch(number))
        if rng.random() < 0.7:  # else the tab is slow: nothing is taken
            late += server.take()
        for _ in range(rng.randrange(4)):
            if late:
                deliver(rng, server, screen, late)
    settle(server, screen)


def deliver(rng: Random, server: Server, screen: Screen, late: list[bytes]) -> None:
    frame = late.pop(rng.randrange(len(late)) if rng.random() < 0.3 else 0)
    fate = rng.random()
    if fate < 0.15:
        return  # lost
    if fate < 0.3:
        late.append(frame)  # it comes once more
    if show(screen, frame) == "gap":
        server.seat.start_over()


def show(screen: Screen, frame: bytes) -> Any:
    return screen.ask(op="frame", data=base64.b64encode(frame).decode())


def settle(server: Server, screen: Screen) -> None:
    """From now on nothing is lost: within two seconds all is well."""
    for _ in range(2):
        server.turn()
        for frame in server.take():
            if show(screen, frame) == "gap":
                server.seat.start_over()
    assert server.seat.watch.detail is not None
    detail = server.seat.watch.detail.name.lower()
    assert screen.ask(op="dump", detail=detail) == server.expected()


@pytest.mark.thorough
def test_the_page_ends_at_what_the_server_shows(screen):
    for seed in range(hypothesis.settings().max_examples // 5):
        play(Random(seed), screen)
