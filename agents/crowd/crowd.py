"""A simulated fleet of thousands of nodes in one process, at one step a second.

Each node is the agent as it is. But most of a fleet has nothing to decide in most seconds, and its
telemetry can be made for all of it at once: such nodes sleep (`Sleeper`), where `prefilter` proves
that SysMonitor's step would change nothing. A node with a job, with an order it has not followed,
or with one GPU that is not proven, is stepped by itself.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from agents.berth import Berth, Equipment
from agents.complaints import Complaints
from agents.config import CannotRun, Config
from agents.contention.prefilter import Doubles, Flags, Judgement
from agents.crowd.line import OPENING, Line
from agents.crowd.roll import Roll
from agents.crowd.sleeper import Sleeper
from agents.fleet import Fleet, gpu_of
from agents.link import Link
from agents.loop import commit
from agents.node import Identity, NodeAgent
from agents.state import StateFile
from agents.sysmonitor import machine
from agents.wire.cluster import Cluster, ClusterNode
from agents.wire.credentials import Credentials

log = logging.getLogger(__name__)
complaints = Complaints()

# From so many GPUs on a fleet is a crowd; up to here five samples a second are affordable.
LARGE: Final = 1_000
STEP_S: Final = 1.0
# The nodes of a second take turns, so that neither this process nor the console has it all at once.
TURNS: Final = 10
# Files besides one for each connection.
SPARE_FILES: Final = 256


def is_large(cluster: Cluster) -> bool:
    return sum(len(node.gpus) for node in cluster.nodes) >= LARGE


class Place(Berth):
    """Where a node of the crowd is. `gpus` are its rows in the roll, which `is_read` where nothing
    was ordered since; `step` is the last second that its guards have reached."""

    gpus: slice
    step = 0
    is_read = False

    def __init__(self, *parts: object, crowd: Crowd) -> None:
        super().__init__(*parts)  # type: ignore[arg-type]
        self._crowd = crowd
        self.sleeper: Sleeper | None = None
        self.line: Line | None = None

    def _new_agent(self, identity: Identity, equipment: Equipment) -> NodeAgent:
        self.is_read = False
        self.sleeper = Sleeper(
            *(identity, self._state, equipment.collector, equipment.runtime),
            *(time.monotonic(), self.wall, equipment.mps, self._alarm),
            wake=lambda: self._crowd.wake(self),
        )
        return self.sleeper

    def _new_link(self, agent: NodeAgent) -> Link:
        parts = self._config.console, self._credentials.token, self.name
        self.line = Line(*parts, agent, self._tls, opening=self._crowd.opening)
        return self.line


class Crowd(Fleet):
    def __init__(
        self, config: Config, cluster: Cluster, keys: Mapping[str, Credentials], state: StateFile
    ) -> None:
        """Raises CannotRun when a node has no credentials."""
        self.opening = asyncio.Semaphore(OPENING)
        super().__init__(config, cluster, dict(keys), state)
        gpus = [gpu_of(index, gpu) for node in cluster.nodes for index, gpu in enumerate(node.gpus)]
        self.roll = Roll([one.facts for one in gpus], [one.inventory.index for one in gpus])
        self.places: Sequence[Place] = [
            place for place in self.berths.values() if isinstance(place, Place)
        ]
        self._starts = np.array([place.gpus.start for place in self.places])
        # When SysMonitor was last asked, or need not be, and of what length each second was.
        self._stepped_at: float | None = None
        self._steps_s = np.zeros(0)
        self._told_switch = self.switch

    async def open(self) -> None:
        _allow_files(len(self.places) + SPARE_FILES)
        await super().open()

    def _berth(self, node: ClusterNode, key: Credentials, state: StateFile) -> Berth:
        place = Place(key, self._config, state, partial(self._equip, node), crowd=self)
        place.gpus = self.world.gpus_of(node.name)
        return place

    # --- a second -----------------------------------------------------------------------

    def second(self, now: float) -> None:
        """The world and all that sleeps, one second on."""
        self.step(now)
        self.read_switch()
        judgement, quiet = self.roll.judge(self.world)
        if self.switch != self._told_switch:
            self._told_switch, quiet = self.switch, np.zeros_like(quiet)
        for place, sleeps in zip(self.places, self._quiet_nodes(quiet), strict=True):
            self._put_to_sleep(place, sleeps)
        self._close(judgement, now)

    def _quiet_nodes(self, quiet: Flags) -> list[bool]:
        nodes: list[bool] = np.logical_and.reduceat(quiet, self._starts).tolist()
        return nodes

    def _put_to_sleep(self, place: Place, sleeps: bool) -> None:
        """What was not looked at in the last second has fallen behind: it is asked first."""
        agent = place.sleeper
        if agent is None:
            return
        if agent.asleep and not sleeps:
            self.wake(place)
        elif not agent.asleep and sleeps:
            is_level = place.is_read and place.step == self.roll.runs.step
            agent.asleep = is_level and agent.may_sleep

    def _close(self, judgement: Judgement, now: float) -> None:
        step_s = 0.0 if self._stepped_at is None else machine.counted_s(now - self._stepped_at)
        self._stepped_at = now
        self.roll.close(judgement, self.world, step_s)
        self._note(step_s)

    def _note(self, step_s: float) -> None:
        count = self.roll.runs.step
        if count > len(self._steps_s):
            self._steps_s = np.resize(self._steps_s, max(4_096, 2 * count))
        self._steps_s[count - 1] = step_s

    def turn(self, places: Iterable[Place], now: float) -> None:
        """What these nodes say of the second, and what those among them do that are awake."""
        for place in places:
            agent = place.sleeper
            if agent is None or place.agent is None:
                continue
            with place.contained:
                self._take_turn(place, agent, now)
                if place.line is not None:
                    place.line.pump(time.monotonic())

    def _take_turn(self, place: Place, agent: Sleeper, now: float) -> None:
        if agent.asleep or place.step == self.roll.runs.step:
            agent.sleep_on(self.roll.rows[place.gpus].tobytes(), now)
            return
        agent.sample(now)
        agent.decide(now, self.switch)
        place.step = self.roll.runs.step
        self._read(place, agent)

    def _read(self, place: Place, agent: Sleeper) -> None:
        for gpu, guard in enumerate(agent.guards, place.gpus.start):
            self.roll.read(gpu, guard)
        place.is_read = True

    def wake(self, place: Place) -> None:
        agent, now = place.sleeper, self._stepped_at
        if agent is None or not agent.asleep or now is None:
            return
        agent.asleep = place.is_read = False
        steps_s = self._skipped(place)
        for gpu, guard in enumerate(agent.guards, place.gpus.start):
            self.roll.wake(gpu, guard, steps_s, now)
        place.step = self.roll.runs.step

    def _skipped(self, place: Place) -> Doubles:
        return self._steps_s[place.step : self.roll.runs.step]


def _allow_files(count: int) -> None:
    """Raises CannotRun where this process may not have so many open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            raise CannotRun(
                f"a fleet of this size needs {count} open files, and this process may have {hard}:"
                " raise its limit (ulimit -Hn)"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


async def beat(crowd: Crowd, state: StateFile, ending: asyncio.Event) -> None:
    """One step a second until `ending` is set."""
    due, refused = time.monotonic(), False
    while not ending.is_set():
        now = time.monotonic()
        if now - due > STEP_S:
            if complaints.due("late"):
                log.warning("%.1f s late: this machine is too slow or too busy", now - due)
            due = now
        crowd.second(now)
        refused = commit(state, refused)
        for turn in range(TURNS):
            crowd.turn(crowd.places[turn::TURNS], now)
            due += STEP_S / TURNS
            await crowd.alarm.sleep(max(0.0, due - time.monotonic()))
            if ending.is_set():
                return
