"""The rules of this node for its processes, from its configuration."""

from __future__ import annotations

import logging
from typing import Final

from agents.actuators import cgroup, job_user, memory
from agents.actuators.cgroup import Groups, NoGroups
from agents.actuators.recipe import ProcessSettings
from agents.actuators.xcuda import XcudaSettings
from agents.config import CannotRun, Config

log = logging.getLogger(__name__)

# What all jobs together may have of the host's memory: online work has the rest for itself.
OFFERED_PERCENT: Final = 80
# Where nobody can tell how much there is.
LEAST_BYTES: Final = 1 << 30


def settings(config: Config, gpus: int) -> ProcessSettings:
    """Of a node with so many GPUs, of which each takes one job. Raises CannotRun."""
    directory = config.state_dir / "jobs"
    user = job_user.look_up(config.job_user) if config.job_user else None
    if user is not None:
        job_user.open_way(directory, user)
    library = config.xcuda
    return ProcessSettings(
        directory,
        config.default_command,
        config.lifeline_fd,
        log_bytes=config.job_log_bytes,
        world_clock=config.clock,
        xcuda=None
        if library is None
        else XcudaSettings(library, inflight_cap=config.inflight_cap or None),
        user=user,
        working_directory=config.job_dir,
        groups=_groups(config),
        memory_bytes=config.job_memory_bytes or _equal_part(gpus),
    )


def _groups(config: Config) -> Groups | None:
    """Raises CannotRun for those that were asked for by name."""
    try:
        groups = Groups(config.cgroup_root or cgroup.delegated())
    except NoGroups as refusal:
        if config.cgroup_root is not None:
            raise CannotRun(str(refusal)) from refusal
        log.info("jobs have no bound on their host memory: %s", refusal)
        return None
    if groups.lacking:
        log.warning("%s has no controller %s", groups.root, ", ".join(groups.lacking))
    return groups


def _equal_part(gpus: int) -> int:
    host = memory.host_memory()
    offered = 0 if host is None else host.total_bytes * OFFERED_PERCENT // 100
    return max(LEAST_BYTES, offered // max(1, gpus))
