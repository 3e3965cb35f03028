"""Every setting of the agent: its name, type, default, unit and meaning, once and for all.

The command line, the environment, the file, `check-config` and docs/agent.md are made from, or
tested against, the fields of `Config`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta

from agents.mps.unit import ROOT
from agents.wire.names import RuntimeKind, SharingMode

DEFAULT_STATE_DIR: Final = Path("/var/lib/muxflow-agent")
DEFAULT_CREDENTIALS: Final = Path("/etc/muxflow-agent/credentials.json")
DEFAULT_FILE: Final = Path("/etc/muxflow-agent/agent.toml")
# What the kubelet puts into a pod, and renews there.
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class CannotRun(RuntimeError):
    """What was asked for cannot be run; the text says why and what to do."""


class Size(msgspec.Struct, frozen=True):
    nodes: int
    gpus: int

    def __str__(self) -> str:
        return f"nodes={self.nodes},gpus={self.gpus}"


class GpuValues(StrEnum):
    """Where the values of --node come from."""

    SIMULATED = "simulated"
    NVML = "nvml"
    REPLAY = "replay"


class LogLevel(StrEnum):
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class LogFormat(StrEnum):
    PLAIN = "plain"
    JSON = "json"


class Group(StrEnum):
    """The headings under which the settings are listed."""

    WHAT = "what to run"
    WHERE = "where"
    HOW = "how"


def setting(group: Group, expects: str, meaning: str, **more: Any) -> Meta:
    """`more`: `unit` of a quantity, `metavar` of its flag, and `flag_only` for what belongs to
    one start of the process and so to no file."""
    return Meta(description=meaning, extra={"group": group, "expects": expects, **more})


Hooks: TypeAlias = dict[str, tuple[str, ...]]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Without `console` there is only a cluster file to write."""

    simulate: Annotated[
        Size | None,
        setting(
            Group.WHAT,
            "of the form nodes=16,gpus=8",
            "run N simulated nodes of M GPUs each, all driven by one model of contention",
            metavar="nodes=N,gpus=M",
        ),
    ] = None
    node: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        setting(
            Group.WHAT,
            "the name of a node",
            "run this one node: of the cluster file, or this machine with gpus nvml",
            metavar="NAME",
        ),
    ] = None
    gpus: Annotated[
        GpuValues,
        setting(
            Group.WHAT,
            "one of simulated, nvml, replay",
            "where the GPUs of the node come from: a model of them, the NVIDIA driver of this"
            " machine, or a recording",
        ),
    ] = GpuValues.SIMULATED
    runtime: Annotated[
        RuntimeKind,
        setting(
            Group.WHAT,
            "one of simulated, process",
            "what runs the jobs of the node: a model of them, or real child processes",
        ),
    ] = RuntimeKind.SIMULATED
    cluster: Annotated[
        Path | None,
        setting(
            Group.WHAT,
            "the path of a file",
            "the cluster to take nodes, GPUs and online services from; a simulated fleet makes one"
            " up without it",
            metavar="FILE",
        ),
    ] = None
    load: Annotated[
        Path | None,
        setting(
            Group.WHAT,
            "the path of a file",
            "the load curves (CSV) of the simulated fleet's online services; without it each has a"
            " daily one",
            metavar="FILE",
        ),
    ] = None
    write_cluster: Annotated[
        Path | None,
        setting(
            Group.WHAT,
            "the path of a file",
            "write the cluster that simulate and seed make up, and exit",
            metavar="FILE",
            flag_only=True,
        ),
    ] = None
    console: Annotated[
        str,
        setting(
            Group.WHERE,
            "a ws:// or wss:// address",
            "the console, for example wss://muxflow.example/ws/agent/",
            metavar="URL",
        ),
    ] = ""
    tls_ca: Annotated[
        Path | None,
        setting(
            Group.WHERE,
            "the path of a file",
            "certificates (PEM) of the authorities that may vouch for the console; without it,"
            " those that this machine trusts",
            metavar="FILE",
        ),
    ] = None
    tls_cert: Annotated[
        Path | None,
        setting(
            Group.WHERE,
            "the path of a file",
            "the certificate (PEM) that this node shows to a console or proxy that asks for one",
            metavar="FILE",
        ),
    ] = None
    tls_key: Annotated[
        Path | None,
        setting(
            Group.WHERE,
            "the path of a file",
            "the key of tls_cert (PEM, without a passphrase), where that file does not hold it too",
            metavar="FILE",
        ),
    ] = None
    credentials: Annotated[
        Path,
        setting(
            Group.WHERE,
            "the path of a file",
            "what enrol wrote: the node's name, token and key; its owner alone may read it",
            metavar="FILE",
        ),
    ] = DEFAULT_CREDENTIALS
    state_dir: Annotated[
        Path,
        setting(
            Group.WHERE,
            "the path of a directory",
            "what must survive this process: jobs, events, SysMonitor's states",
            metavar="DIR",
        ),
    ] = DEFAULT_STATE_DIR
    faults: Annotated[
        Path | None,
        setting(
            Group.WHERE,
            "the path of a socket",
            "listen here for faults to inject into a simulated fleet",
            metavar="SOCKET",
        ),
    ] = None
    mps_dir: Annotated[
        Path,
        setting(
            Group.WHERE,
            "the path of a directory",
            "where the MPS control daemons keep their directories, one a GPU",
            metavar="DIR",
        ),
    ] = ROOT
    metrics_port: Annotated[
        Annotated[int, Meta(ge=1, le=65_535)] | None,
        setting(
            Group.WHERE,
            "a port from 1 to 65535",
            "serve Prometheus metrics on this port of 127.0.0.1; without it nothing listens",
            metavar="PORT",
            unit="port",
        ),
    ] = None
    dcgm: Annotated[
        str,
        setting(
            Group.HOW,
            "an address, or dcgmi",
            "SM activity from dcgm-exporter at this address (its interval must be 1 s), or from"
            " the program: dcgmi. GPUs before Hopper need it",
            metavar="URL",
        ),
    ] = ""
    recording: Annotated[
        Path | None,
        setting(
            Group.HOW,
            "the path of a file",
            "with gpus nvml: write all readings there; with gpus replay: show them again",
            metavar="FILE",
        ),
    ] = None
    kubernetes: Annotated[
        str,
        setting(
            Group.HOW,
            "in-cluster, or an https:// address",
            "the Kubernetes API that names this node's pods, read only: in-cluster where the agent"
            " runs in a pod; http:// for the loopback alone",
            metavar="URL",
        ),
    ] = ""
    kubernetes_node: Annotated[
        str,
        setting(
            Group.HOW,
            "the name of a node",
            "how Kubernetes calls this machine, where that is not the name in node",
            metavar="NAME",
        ),
    ] = ""
    kubernetes_selector: Annotated[
        str,
        setting(
            Group.HOW,
            "a label selector",
            "which pods of this node are online services; without it all are",
            metavar="SELECTOR",
        ),
    ] = ""
    kubernetes_service_label: Annotated[
        Annotated[str, Meta(min_length=1)],
        setting(
            Group.HOW,
            "the key of a label",
            "the label of a pod that names its service",
            metavar="KEY",
        ),
    ] = "app.kubernetes.io/name"
    kubernetes_token: Annotated[
        Path,
        setting(
            Group.HOW,
            "the path of a file",
            "the token for the Kubernetes API, read anew for each request",
            metavar="FILE",
        ),
    ] = SERVICE_ACCOUNT / "token"
    kubernetes_ca: Annotated[
        Path,
        setting(
            Group.HOW,
            "the path of a file",
            "the certificate authorities of the Kubernetes API",
            metavar="FILE",
        ),
    ] = SERVICE_ACCOUNT / "ca.crt"
    sharing_ceiling: Annotated[
        SharingMode,
        setting(
            Group.HOW,
            "one of off, observe, shadow, enforce",
            "the most that may be done on this node, whatever mode the console orders",
        ),
    ] = SharingMode.ENFORCE
    default_command: Annotated[
        tuple[str, ...],
        setting(
            Group.HOW,
            "a command, as in a shell",
            "what runtime process runs for a job that has no command of its own",
            metavar="COMMAND",
        ),
    ] = ()
    xcuda: Annotated[
        Path | None,
        setting(
            Group.HOW,
            "the path of a file",
            "with runtime process: libxcuda.so, preloaded into every job so that it keeps to its"
            " quota and duty, can be frozen and ends safely; without it jobs run unlimited",
            metavar="FILE",
        ),
    ] = None
    inflight_cap: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)],
        setting(
            Group.HOW,
            "a number of launches, 0 to 1000000",
            "with xcuda: kernels of each process of a job that may wait on the GPU, where an online"
            " kernel waits behind as many; 0: any number",
            metavar="N",
            unit="launches",
        ),
    ] = 1
    job_user: Annotated[
        str,
        setting(
            Group.HOW,
            "the name of a user",
            "with runtime process: jobs run as this user, for which the agent must be root; without"
            " it they run as the agent does",
            metavar="USER",
        ),
    ] = ""
    job_dir: Annotated[
        Path | None,
        setting(
            Group.HOW,
            "the path of a directory",
            "with runtime process: where jobs begin to work; without it where the agent does",
            metavar="DIR",
        ),
    ] = None
    job_log_bytes: Annotated[
        Annotated[int, Meta(ge=4_096)],
        setting(
            Group.HOW,
            "a number of bytes, at least 4096",
            "with runtime process: how long the log of a job grows before it is moved aside, where"
            " one more of that length is kept",
            metavar="N",
            unit="bytes",
        ),
    ] = 16 << 20
    job_memory_bytes: Annotated[
        Annotated[int, Meta(ge=16 << 20)] | None,
        setting(
            Group.HOW,
            "a number of bytes, at least 16 MiB",
            "with runtime process and control groups: host memory of one job; without it an equal"
            " part, for each GPU, of 80 % of the host's",
            metavar="N",
            unit="bytes",
        ),
    ] = None
    cgroup_root: Annotated[
        Path | None,
        setting(
            Group.HOW,
            "the path of a directory",
            "with runtime process: the control group (version 2) in which each job gets its own;"
            " without it the one that systemd delegates to the agent, where there is one",
            metavar="DIR",
        ),
    ] = None
    restart_hooks: Annotated[
        Hooks,
        setting(
            Group.HOW,
            "of the form SERVICE=COMMAND",
            "what restarts an online service after a fault of its GPU; once for each service",
            metavar="SERVICE=COMMAND",
            flag="restart-hook",
        ),
    ] = msgspec.field(default_factory=dict)
    log_level: Annotated[
        LogLevel,
        setting(Group.HOW, "one of DEBUG, INFO, WARNING, ERROR", "the least that is logged"),
    ] = LogLevel.INFO
    log_format: Annotated[
        LogFormat,
        setting(
            Group.HOW,
            "one of plain, json",
            "lines for people, or one JSON object a line for programs",
        ),
    ] = LogFormat.PLAIN
    clock: Annotated[
        Annotated[float, Meta(gt=0)],
        setting(
            Group.HOW,
            "a number over 0",
            "how fast the simulated world goes; sampling, dwell and leases stay real",
            metavar="X",
            unit="s/s",
        ),
    ] = 1.0
    seed: Annotated[
        int, setting(Group.HOW, "an integer", "of the made-up cluster and its noise", metavar="N")
    ] = 7
    lifeline_fd: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        setting(
            Group.HOW,
            "a file descriptor",
            "an inherited pipe: at its end of file this process ends and its jobs are stopped;"
            " without it jobs outlive the agent and are adopted by the next one",
            metavar="N",
            flag_only=True,
        ),
    ] = None


def size(text: str) -> Size:
    """`nodes=16,gpus=8`. Raises ValueError."""
    match = re.fullmatch(r"nodes=([1-9]\d{0,5}),gpus=([1-9]\d?)", text)
    if match is None:
        raise ValueError(f"{text!r} is not of the form nodes=16,gpus=8")
    return Size(int(match[1]), int(match[2]))


def words(text: str) -> tuple[str, ...]:
    """As a shell takes a command apart. Raises ValueError."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"{text!r} is no command: {error}") from error


def hook(text: str) -> tuple[str, tuple[str, ...]]:
    """`chat=systemctl restart chat`. Raises ValueError."""
    service, _, command = text.partition("=")
    if not service or not (found := words(command)):
        raise ValueError(f"{text!r} is not of the form SERVICE=COMMAND")
    return service, found


def hooks(lines: str) -> Hooks:
    """One hook a line. Raises ValueError."""
    return dict(hook(line) for line in lines.splitlines() if line)


# How a setting that is more than one word is written in a text.
WRITTEN: Final[Mapping[str, Callable[[str], Any]]] = {
    "simulate": size,
    "default_command": words,
    "restart_hooks": hooks,
}
