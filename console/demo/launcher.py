"""Start the whole product on this machine, keep it running, stop it cleanly.

The launcher starts processes and imports none of them. Each start begins a new story: a fresh
database (copied from one that was migrated before), a fresh world.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from console.demo.embedded import free_port, redis_server
from console.demo.processes import PYTHON, Child, die_with_parent
from console.demo.real_node import RealNode, why_without_xcuda

START_TIMEOUT_S = 90.0
BACKLOG = 128
NODES, GPUS_PER_NODE, SEED = 16, 8, 7

# The prepared database and the collected static files are made from these.
SEED_SOURCES = ("console/**/*.py", "agents/**/*.py", "static/**/*", "package-lock.json")

# World and periods are short in the demo; sampling, dwell and deadlines stay real seconds.
SHORT_PERIODS = {
    "MUXFLOW_ROUND_PERIOD_S": "15",
    "MUXFLOW_REALLOCATION_PERIOD_S": "15",
    "MUXFLOW_FLEET_SAMPLE_PERIOD_S": "2",
    "MUXFLOW_OBSERVE_PERIOD_S": "5",
    "MUXFLOW_OBSERVATION_WINDOW_S": "15",
    "MUXFLOW_WATCH_PREDICTOR_PERIOD_S": "10",
    "MUXFLOW_RETRAIN_PERIOD_S": "120",
    "MUXFLOW_FORECAST_PERIOD_S": "2",
    "MUXFLOW_LEASE_S": "30",
    "MUXFLOW_PROFILE_SETTLE_S": "3",
    "MUXFLOW_PROFILE_WINDOW_S": "6",
    "MUXFLOW_PROFILE_WITHIN_S": "120",
    "MUXFLOW_PROFILE_LIMIT_S": "60",
    "MUXFLOW_BURN_IN_S": "20",
    "MUXFLOW_SERVICE_PROFILE_PERIOD_S": "3",
    "MUXFLOW_WORLD_CLOCK": "60",
}


class CannotStart(Exception):
    """One sentence that says what failed and what to do."""


@dataclass
class Launcher:
    root: Path
    folder: Path
    port: int
    story: bool = True
    children: list[Child] = field(default_factory=list)
    stopping: bool = False

    def run(self) -> None:
        """Blocks until Ctrl-C or SIGTERM. Raises CannotStart."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop_wanted)
        os.umask(0o077)  # sessions and keys lie in what it and its children write
        with listen(self.port) as self.listener, alone_in(self.folder):
            try:
                self._start()
                self._greet()
                self._watch()
            finally:
                self._stop()

    def _stop_wanted(self, number: int, frame: object) -> None:
        self.stopping = True

    # --- start ------------------------------------------------------------------------

    def _start(self) -> None:
        self._clear()
        os.environ.update(self._environment())
        self._add_redis()
        say("preparing the database and the cluster")
        self._hold_node_17()
        self._prepare()
        behind = [self._worker(), self._beat(), self._fleet(), *self._node_17()]
        self.children += behind
        for child in behind:
            child.start()
        say("starting worker, beat and 17 node agents")
        self._wait(self._all_ready, "worker, beat or an agent has not reported")
        web = self._web()
        self.children.append(web)
        web.start()
        self._wait(lambda: answers(f"{self.url}/healthz"), "the web process does not answer")
        self._wait(self._all_connected, "not every agent has connected")
        if self.story:
            teller = self._manage("story", "demo_story", reports=False)
            self.children.append(teller)
            teller.start()

    def _clear(self) -> None:
        """Only what one run writes: the migrated template and the secrets stay."""
        for name in ("logs", "state", "first_view", "story.json"):
            path = self.folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        for stale in self.folder.glob("demo.sqlite3*"):
            stale.unlink()

    def _environment(self) -> dict[str, str]:
        return {
            **SHORT_PERIODS,
            **self._secrets(),
            "MUXFLOW_DEMO": "1",
            "MUXFLOW_VAR_DIR": str(self.folder),
            "MUXFLOW_DEMO_FAULTS": str(self.folder / "faults.sock"),
            "MUXFLOW_DEMO_LAB": str(self.folder / "lab.sock"),
            "MUXFLOW_LOG_LEVEL": "WARNING",
            "DATABASE_URL": f"sqlite:///{self.database}",
            "PORT": str(self.port),
            "PYTHONUNBUFFERED": "1",
            # One thread for linear algebra: seven processes share few cores here.
            "OMP_NUM_THREADS": "1",
        }

    def _secrets(self) -> dict[str, str]:
        path = self.folder / "secrets.json"
        if not path.exists():
            names = ("MUXFLOW_SECRET_KEY", "MUXFLOW_MASTER_SECRET", "MUXFLOW_DEMO_PASSWORD")
            path.touch(0o600)
            path.write_text(json.dumps({name: secrets.token_urlsafe(24) for name in names}))
        stored: dict[str, str] = json.loads(path.read_text())
        return stored

    def _add_redis(self) -> None:
        if os.environ.get("REDIS_URL"):
            return
        server = redis_server(self.folder)
        os.environ["REDIS_URL"] = server.url
        child = Child("redis", server.command, {}, self.folder / "logs", reports=False)
        self.children.append(child)
        child.start()

    def _prepare(self) -> None:
        """Migrate and seed once per version of the code, then only copy the result."""
        kind = "mps" if self.real.under_mps else "plain"
        template = self.folder / f"template-{kind}-{code_stamp(self.root)}.sqlite3"
        if not template.exists():
            for old in self.folder.glob("template-*"):
                old.unlink()
            self._run("write_cluster", *self._agent("--write-cluster", str(self.cluster)))
            gpus = self._run("gpus", *self.real.gpus()).split() if self.real.under_mps else []
            self._run("prepare", PYTHON, "manage.py", "demo_prepare", str(self.cluster), *gpus)
            copy_database(self.database, template)
        copy_database(template, self.database)
        if self.real.under_mps:
            self.real.tell_metrics(self.database)

    def _run(self, name: str, *command: str) -> str:
        """What it printed."""
        environment = self.real.environment() if self.real.under_mps else {}
        done = subprocess.run(
            command,
            cwd=self.root,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            preexec_fn=die_with_parent,
        )
        if self.stopping:
            raise CannotStart("Stopped before everything was up.")
        if done.returncode:
            raise CannotStart(
                f"The step {name} of the demo failed: {last_line(done.stderr or done.stdout)}"
                " Run `make clean`, then `make demo` again."
            )
        return done.stdout

    def _wait(self, met: Callable[[], bool], late: str) -> None:
        until = time.monotonic() + START_TIMEOUT_S
        while not met():
            if self.stopping:
                raise CannotStart("Stopped before everything was up.")
            for child in self.children:
                if not child.alive:
                    raise CannotStart(f"{child.name} did not start:\n{child.tail()}")
            if time.monotonic() > until:
                raise CannotStart(
                    f"Not up after {START_TIMEOUT_S:.0f} s: {late}."
                    f" Look into {self.folder / 'logs'}."
                )
            time.sleep(0.05)

    def _all_ready(self) -> bool:
        return all(child.is_ready() for child in self.children)

    def _all_connected(self) -> bool:
        """Nodes that are not would be left out by a person who turns sharing on at once."""
        query = "SELECT count(*) FROM inventory_node WHERE state != 'CONNECTED'"
        with closing(sqlite3.connect(self.database)) as database:
            return bool(database.execute(query).fetchone() == (0,))

    # --- the processes ----------------------------------------------------------------

    def _child(self, name: str, *command: str, **options: object) -> Child:
        return Child(name, command, {}, self.folder / "logs", **options)  # type: ignore[arg-type]

    def _manage(self, name: str, *arguments: str, reports: bool) -> Child:
        return self._child(name, PYTHON, "manage.py", *arguments, reports=reports)

    def _worker(self) -> Child:
        return self._child(
            "worker",
            *(PYTHON, "-m", "celery", "-A", "workers.app", "worker", "--pool", "threads"),
            *("--concurrency", "4", "--queues", "matching,reallocation,telemetry,default"),
            *("--loglevel", "WARNING", "--without-gossip", "--without-mingle"),
        )

    def _beat(self) -> Child:
        return self._child(
            "beat",
            *(PYTHON, "-m", "celery", "-A", "workers.app", "beat", "--loglevel", "WARNING"),
            *("--schedule", str(self.folder / "beat-schedule"), "--pidfile="),
        )

    def _web(self) -> Child:
        return self._child(
            "web",
            *(PYTHON, "-m", "console.serve", "--fd", str(self.listener.fileno())),
            *("--grace-s", "2", "--log-level", "warning"),
            reports=False,
            pass_fds=(self.listener.fileno(),),
        )

    def _agent(self, *arguments: str) -> tuple[str, ...]:
        size = f"nodes={NODES},gpus={GPUS_PER_NODE}"
        return (PYTHON, "-m", "agents", "--simulate", size, "--seed", str(SEED), *arguments)

    def _fleet(self) -> Child:
        return self._child(
            "fleet",
            *self._agent(
                *("--cluster", str(self.cluster), "--console", self.agent_url),
                *("--credentials", str(self.folder / "fleet.json")),
                *("--state-dir", str(self.folder / "state/fleet")),
                *("--faults", str(self.folder / "faults.sock")),
                *("--clock", SHORT_PERIODS["MUXFLOW_WORLD_CLOCK"]),
            ),
        )

    def _hold_node_17(self) -> None:
        """Its jobs are real child processes, held by a pipe that ends with us."""
        self._lifeline = os.pipe()
        os.set_inheritable(self._lifeline[1], False)
        build = self.root / "build/xcuda"
        missing = why_without_xcuda(build)
        os.environ["MUXFLOW_DEMO_WITHOUT_XCUDA"] = missing
        self.real = RealNode(
            build,
            self.folder,
            self.agent_url,
            SHORT_PERIODS["MUXFLOW_WORLD_CLOCK"],
            self._lifeline[0],
            free_port(),
            under_mps=not missing,
        )
        if missing:
            say(missing)
        else:
            self.real.mps_dir.mkdir(parents=True)

    def _node_17(self) -> list[Child]:
        """The agent, after what it finds on its machine."""
        agent = self._child("node-17", *self.real.agent(), pass_fds=(self._lifeline[0],))
        if not self.real.under_mps:
            return [agent]
        lab = self._child("lab", *self.real.lab())
        agent.env = lab.env = self.real.environment()
        return [lab, agent]

    # --- run and stop -----------------------------------------------------------------

    def _greet(self) -> None:
        say(f"MuxFlow is up: {self.url}")
        say(
            "Sign in with one click on that page, or as ortega (approver), okafor (admin) or"
            f" lindqvist (viewer), password {os.environ['MUXFLOW_DEMO_PASSWORD']}"
        )
        say("Ctrl-C stops everything.")

    def _watch(self) -> None:
        while not self.stopping:
            for child in self.children:
                if line := child.watch(time.monotonic()):
                    say(line)
            self._write_pids()
            time.sleep(0.25)

    def _write_pids(self) -> None:
        pids = {c.name: c.process.pid for c in self.children if c.alive and c.process}
        draft = self.folder / "pids.json.new"
        draft.write_text(json.dumps(pids))
        draft.replace(self.folder / "pids.json")

    def _stop(self) -> None:
        """The pages first, then what works behind them, Redis last."""
        say("stopping")
        self.listener.close()
        order = ["story", "web", "beat", "worker", "fleet", "node-17", "lab", "redis"]
        children = sorted(self.children, key=lambda child: order.index(child.name))
        front, back = children[:-1], children[-1:]
        for group in (front, back):
            for child in group:
                child.terminate()
            for child in group:
                child.wait_gone()
        if hasattr(self, "_lifeline"):
            for end in self._lifeline:
                os.close(end)
        (self.folder / "pids.json").unlink(missing_ok=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def agent_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws/agent/"

    @property
    def database(self) -> Path:
        return self.folder / "demo.sqlite3"

    @property
    def cluster(self) -> Path:
        return self.folder / "cluster.json"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Raises CannotStart when another launcher has its database and its processes there."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotStart(
                f"A demo runs from {folder} already: stop it with Ctrl-C where it runs,"
                " or name another folder in MUXFLOW_DEMO_DIR."
            ) from None
        yield


def listen(port: int) -> socket.socket:
    """The web process takes it over, now and after a restart; until then whoever calls waits.

    Raises CannotStart when something listens there already.
    """
    try:
        return socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
    except OSError:
        raise CannotStart(
            f"Port {port} is in use: stop what runs there or choose another port, for"
            f" example `make demo PORT={port + 1}`."
        ) from None


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310  (our own loopback)
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def code_stamp(root: Path) -> str:
    """Changes with anything that the migrated and seeded database was made from."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in SEED_SOURCES for path in root.glob(pattern)):
        stat = path.stat()
        digest.update(f"{path.relative_to(root)} {stat.st_size} {stat.st_mtime_ns}".encode())
    return digest.hexdigest()[:16]


def copy_database(source: Path, target: Path) -> None:
    """A copy that is whole even when the source still has a write-ahead log."""
    with sqlite3.connect(source) as here, sqlite3.connect(target) as there:
        here.backup(there)
    here.close()
    there.close()


def last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing."


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
