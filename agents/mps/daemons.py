"""All control daemons of one node, each with its watcher."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence

from agents.containment import Containment
from agents.mps import unit
from agents.mps.changes import Changes
from agents.mps.control import PROGRAM, Control, ControlFailed, Place
from agents.mps.health import Snapshot
from agents.mps.hooks import RestartHooks
from agents.mps.recovery import why_not_restart
from agents.mps.watch import Watch, Watcher

log = logging.getLogger(__name__)


class Daemons:
    """By the UUID of the GPU; a GPU whose daemon is not there is watched until it comes."""

    def __init__(self, controls: Iterable[Control]) -> None:
        # Of all of them, in no particular unit.
        self.looks = 0
        self._quiet_until = -math.inf
        self._watchers = {
            control.place.gpu_uuid: Watcher(Watch(control), looked=self._note_look)
            for control in controls
        }
        self._folders = {
            uuid: str(watcher.watch.control.place.control_log.parent)
            for uuid, watcher in self._watchers.items()
        }
        self._logs = frozenset(self._folders.values())
        self._changes = Changes()
        self._contained = Containment("mps")

    def start(self) -> None:
        for watcher in self._watchers.values():
            watcher.start()

    def ring(self) -> None:
        """Due several times a second: wakes the watchers for which there is something to see. Their
        threads do not wake by themselves, since that costs more than a look does. Where it is
        merely time to ask, one daemon is asked and the next waits for the next ring: the
        programs of all of them at once would keep the cores from others."""
        changed, is_asked = self._changes.take(self._logs), False
        if not changed and time.monotonic() < self._quiet_until:
            return
        for uuid, watcher in self._watchers.items():
            has_changed = self._folders[uuid] in changed
            is_turn = not is_asked and watcher.is_to_ask()
            is_asked |= is_turn
            if has_changed or is_turn or watcher.has_more:
                with self._contained:
                    watcher.ring(changed=has_changed, ask=is_turn)
        self._quiet_until = min(
            (watcher.quiet_until() for watcher in self._watchers.values()), default=math.inf
        )

    def _note_look(self) -> None:
        """On the thread of a watcher."""
        self.looks += 1
        self._quiet_until = -math.inf

    def stop(self) -> None:
        """Ends the watching; the daemons stay as they are."""
        for watcher in self._watchers.values():
            watcher.stop()
        self._changes.close()

    def __contains__(self, gpu_uuid: str) -> bool:
        return gpu_uuid in self._watchers

    def snapshot(self, gpu_uuid: str) -> Snapshot:
        return self._watchers[gpu_uuid].snapshot

    def watcher(self, gpu_uuid: str) -> Watcher:
        return self._watchers[gpu_uuid]

    def place(self, gpu_uuid: str) -> Place:
        return self._watchers[gpu_uuid].watch.control.place

    def client_pids(self) -> dict[str, frozenset[int]]:
        """Of the GPUs whose daemon could say; what `collectors.processes` asks for."""
        snapshots = {uuid: watcher.snapshot for uuid, watcher in self._watchers.items()}
        return {
            uuid: snapshot.client_pids
            for uuid, snapshot in snapshots.items()
            if snapshot.client_pids is not None
        }

    def terminate_client(self, gpu_uuid: str, pids: Iterable[int]) -> None:
        """Soon; what is no client of the daemon is left alone."""
        for pid in pids:
            self._watchers[gpu_uuid].terminate(pid)


class GpuHands:
    """What a recovery does on one GPU; see `warden.Hands`."""

    def __init__(
        self,
        watcher: Watcher,
        services: Callable[[], Iterable[str]],
        hooks: RestartHooks,
        tell: Callable[[str], None],
        quarantine: Callable[[str], None],
    ) -> None:
        """`services` names those on the GPU; `tell` reaches a person."""
        self._watcher, self._services, self._hooks = watcher, services, hooks
        self._tell, self._quarantine = tell, quarantine

    @property
    def has_hook(self) -> bool:
        return any(self._hooks.has(service) for service in self._services())

    @property
    def is_restarting(self) -> bool:
        return any(self._hooks.is_running(service) for service in self._services())

    def restart_online(self) -> str:
        services = tuple(self._services())
        run = [service for service in services if self._hooks.run(service)]
        left = ", ".join(service for service in services if service not in run)
        if not services:
            self._tell("restart what ran online on this GPU: no service is known for it")
        elif left:
            self._tell(f"restart {left}: this node has no hook for it")
        hooks = f"the hook of {', '.join(run)} runs" if run else "no hook runs"
        return hooks if services and not left else f"{hooks}, and a person is told"

    def restart_server(self) -> None:
        self._watcher.do_instead(restart_server)

    def page(self, why: str) -> None:
        self._tell(why)

    def quarantine(self, why: str) -> None:
        self._quarantine(why)


def restart_server(watch: Watch) -> None:
    """Shuts what is at fault; the daemon starts a new one with the next client. A daemon that is
    gone or does not answer is started anew. Raises ControlFailed."""
    control, snapshot = watch.control, watch.snapshot
    if refused := why_not_restart(snapshot.state, len(snapshot.client_pids or ()), approved=False):
        log.warning("%s: %s", control.place.gpu_uuid, refused)
        return
    try:
        for server in control.ask(control.dialect.servers()):
            control.ask(control.dialect.shut_server(server))
    except ControlFailed as failure:
        log.warning("%s: its daemon is started anew: %s", control.place.gpu_uuid, failure)
        unit.restart(control, multiuser=bool(snapshot.multiuser))


def at(places: Iterable[Place], program: Sequence[str] = (PROGRAM,)) -> Daemons:
    return Daemons(Control(place, program) for place in places)
