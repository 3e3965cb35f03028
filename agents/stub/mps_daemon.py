"""A stand-in for `nvidia-cuda-mps-control` and its server: tests, and the demo's real node.

`-d` starts the daemon in the background, `-f` in the foreground; `mps_control.py` puts questions to
it, and `write_program` makes one program of NVIDIA's name of both. It serves one GPU,
$CUDA_VISIBLE_DEVICES, over a socket in $CUDA_MPS_PIPE_DIRECTORY, and logs to
$CUDA_MPS_LOG_DIRECTORY. The server is a process of its own that does nothing but be there.

With $STUB_MPS (the stub driver's shared file) and $STUB_MPS_REPORT (the `mps-report` program) its
clients and faults are those of the stub driver. Without them, and beside them, a test says what
happens by commands that begin with `fake`; see `Fakery`. With $STUB_LIFELINE, a FIFO, it quits when
nobody holds the writing end any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ACTIVE, FAULT, INITIALIZING = "ACTIVE", "FAULT", "INITIALIZING"
PIPE_DIRECTORY: Final = "/tmp/nvidia-mps"  # noqa: S108  NVIDIA's own default
LOG_DIRECTORY: Final = "/var/log/nvidia-mps"
PID_FILE: Final = "nvidia-cuda-mps-control.pid"
MAX_CLIENTS: Final = 48
# CUDA's code of a client that was ended by terminate_client.
TERMINATED: Final = 810
TICK_S: Final = 0.1
HUGE_BYTES: Final = 2 << 20
PROGRAM: Final = """\
#!/bin/sh
case " $* " in
*" -d "* | *" -f "*) exec {words}/mps_daemon.py "$@" ;;
*) exec {words}/mps_control.py "$@" ;;
esac
"""


def main(arguments: list[str]) -> int:
    options = set(arguments)
    return start_in_background(options) if "-d" in options else serve(options)


def write_program(directory: Path) -> Path:
    """An executable by the name of NVIDIA's, for a test's or the demo's PATH."""
    program = directory / "nvidia-cuda-mps-control"
    words = shlex.join([sys.executable, "-I", "-S", str(Path(__file__).parent)])
    program.write_text(PROGRAM.format(words=words))
    program.chmod(0o755)
    return program


def pipe_directory() -> Path:
    return Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", PIPE_DIRECTORY))


# --- the daemon's life ------------------------------------------------------------------


def start_in_background(options: set[str]) -> int:
    """Returns once it listens. It is nobody's child then, and of a session of its own."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        os.close(reading)
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        os._exit(serve(options, ready=writing))
    os.close(writing)
    os.wait()
    with os.fdopen(reading, "rb") as ready:
        if ready.read() == b"ready":
            return 0
    sys.stderr.write("An instance of this daemon is already running\n")
    return 1


def serve(options: set[str], ready: int | None = None) -> int:
    """Until `quit`. 1 when another daemon holds the directory."""
    directory = pipe_directory()
    directory.mkdir(parents=True, exist_ok=True)
    os.chdir(directory)
    lock = os.open("control_lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 1
    Path("control").unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("control")
        listening.listen(64)
        Path(PID_FILE).write_text(f"{os.getpid()}\n")
        if ready is not None:
            os.write(ready, b"ready")
            os.close(ready)
        Daemon(multiuser="-multiuser-server" in options).run(listening)
    Path("control").unlink(missing_ok=True)
    Path(PID_FILE).unlink(missing_ok=True)
    return 0


def started(pid: int) -> str | None:
    """When a process began, so that a PID used again is another; None when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


@dataclass
class Client:
    uid: int
    started: str | None
    hit: bool = False


@dataclass
class Server:
    """The one server; `ready_at` is when it has initialised."""

    pid: int
    uid: int
    ready_at: float
    fault: bool = False
    undefined: bool = False
    clients: dict[int, Client] = field(default_factory=dict)
    percentage: float = 100.0
    memory_limit: str = ""

    @property
    def state(self) -> str:
        if self.fault:
            return FAULT
        return ACTIVE if time.monotonic() >= self.ready_at else INITIALIZING


class StubDriver:
    """The stub driver's shared file, seen through its `mps-report`."""

    def __init__(self) -> None:
        self._file = os.environ.get("STUB_MPS", "")
        self._program = os.environ.get("STUB_MPS_REPORT", "")

    def report(self, *options: str) -> dict[str, Any] | None:
        """What it knows of its clients; None without one, or when it cannot tell."""
        if not self._file or not self._program:
            return None
        with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
            done = subprocess.run(
                [self._program, self._file, *options], capture_output=True, timeout=2, check=True
            )
            told: dict[str, Any] = json.loads(done.stdout)
            return told
        return None


@dataclass
class Fakery:
    """What a test asked for.

    `fake connect PID [UID]`, `fake disconnect PID`: a client comes or goes (one whose process has
    ended is forgotten by itself). `fake fault [PID]`: a fatal error, of that client. `fake slow
    S`: each answer takes as long. `fake terminating S`: so long does terminate_client take, and
    so long are new clients refused. `fake initializing S`: so long does a server start. `fake say
    TEXT`: the answer to everything from now on; `fake huge`: two MiB of it; `fake refuse`: what
    changes something is refused; `fake honest`: no more of all that. `fake crash`: the daemon is
    gone and its socket stays.
    """

    slow_s: float = 0.0
    terminating_s: float = 0.0
    initializing_s: float = 0.0
    say: str | None = None
    refuse: bool = False


class Daemon:
    """Everything it knows, and what each command does with it."""

    def __init__(self, *, multiuser: bool) -> None:
        self._multiuser = multiuser
        self._logs = Path(os.environ.get("CUDA_MPS_LOG_DIRECTORY", LOG_DIRECTORY))
        self._device = os.environ.get("CUDA_VISIBLE_DEVICES", "GPU-00000000")
        self._driver, self._fake = StubDriver(), Fakery()
        self._server: Server | None = None
        self._waiting: list[tuple[int, int]] = []
        self._percentage, self._memory_limit, self._priority = 100.0, "", 0
        self._closed_until = 0.0
        # Of the stub driver's, those that were told; None before the first word.
        self._faults: int | None = None
        self._ending = False
        self._lock = threading.RLock()
        # Its writing end is in this process alone: it ends with it, however it ends.
        self._lifeline = os.pipe()
        self._held = _lifeline_of_ours()

    def run(self, listening: socket.socket) -> None:
        self._logs.mkdir(parents=True, exist_ok=True)
        self._control_log("Starting control daemon using socket control")
        listening.settimeout(TICK_S)
        while not self._ending and not self._let_go():
            with contextlib.suppress(TimeoutError):
                line, _ = listening.accept()
                threading.Thread(target=self._attend, args=(line,), daemon=True).start()
            with self._lock:
                self._look()
        self._end_server("quit")

    def _let_go(self) -> bool:
        if self._held is None:
            return False
        seen = select.poll()
        seen.register(self._held, 0)
        return bool(seen.poll(0))

    def _attend(self, line: socket.socket) -> None:
        with line, contextlib.suppress(OSError), line.makefile("rb") as incoming:
            command = incoming.readline(4096).decode(errors="replace").split()
            line.sendall(self._answer(command).encode())

    def _answer(self, words: list[str]) -> str:
        if words[:1] == ["fake"]:
            with self._lock:
                return self._fakes(words[1:])
        time.sleep(self._fake.slow_s)
        if self._fake.say is not None:
            return self._fake.say
        if words[:1] == ["terminate_client"]:
            return self._terminate(words[1:])
        with self._lock:
            self._look()
            return self._obey(words)

    def _obey(self, words: list[str]) -> str:
        name, *rest = words or [""]
        command = getattr(self, f"_do_{name}", None)
        if self._fake.refuse and not name.startswith(("get_", "ps")):
            return "Failed to execute the command\n"
        try:
            answer: str | None = None if command is None else command(*rest)
        except (TypeError, ValueError):
            return "Invalid arguments\n"
        return f"Unknown command: {name}\n" if answer is None else answer

    # --- commands, by NVIDIA's names ----------------------------------------------------

    def _do_get_server_list(self) -> str:
        return "" if self._server is None else f"{self._server.pid}\n"

    def _do_get_server_status(self, pid: str) -> str:
        server = self._serving(pid)
        return "Server not found\n" if server is None else f"{server.state}\n"

    def _do_get_client_list(self, pid: str) -> str:
        server = self._serving(pid)
        if server is None:
            return "Server not found\n"
        return "".join(f"{client}\n" for client in server.clients)

    def _do_get_device_client_list(self, pid: str = "") -> str:
        clients = self._server.clients if self._server else {}
        return f"Device {self._device}\n" + "".join(f"{client}\n" for client in clients)

    def _do_ps(self, *_options: str) -> str:
        server = self._server
        rows = [] if server is None else [self._row(server, pid) for pid in server.clients]
        return "\n".join(["PID ID SERVER DEVICE NAMESPACE COMMAND", *rows]) + "\n"

    def _row(self, server: Server, pid: int) -> str:
        with contextlib.suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            return f"{pid} 0 {server.pid} {self._device[:22]} 4026531836 {name}"
        return f"{pid} 0 {server.pid} {self._device[:22]} 4026531836 ?"

    def _do_start_server(self, _flag: str, uid: str) -> str:
        if self._server is not None:
            return "Failed: a server is running\n"
        self._start_server(int(uid))
        return ""

    def _do_shutdown_server(self, pid: str, *options: str) -> str:
        server = self._serving(pid)
        if server is None:
            return "Server not found\n"
        if server.clients and "-f" not in options:
            return "Failed: the server has clients\n"
        self._end_server("shutdown")
        return ""

    def _do_get_default_active_thread_percentage(self) -> str:
        return f"{self._percentage}\n"

    def _do_set_default_active_thread_percentage(self, percent: str) -> str:
        self._percentage = float(percent)
        return f"{self._percentage}\n"

    def _do_get_active_thread_percentage(self, pid: str) -> str:
        server = self._serving(pid)
        return "Server not found\n" if server is None else f"{server.percentage}\n"

    def _do_set_active_thread_percentage(self, pid: str, percent: str) -> str:
        server = self._serving(pid)
        if server is None:
            return "Server not found\n"
        server.percentage = float(percent)
        return f"{server.percentage}\n"

    def _do_get_default_device_pinned_mem_limit(self, _device: str) -> str:
        return f"{self._memory_limit}\n"

    def _do_set_default_device_pinned_mem_limit(self, _device: str, limit: str) -> str:
        self._memory_limit = limit
        return ""

    def _do_set_device_pinned_mem_limit(self, pid: str, _device: str, limit: str) -> str:
        server = self._serving(pid)
        if server is None:
            return "Server not found\n"
        server.memory_limit = limit
        return ""

    def _do_get_default_client_priority(self) -> str:
        return f"{self._priority}\n"

    def _do_set_default_client_priority(self, priority: str) -> str:
        self._priority = int(priority)
        return ""

    def _do_quit(self, *_options: str) -> str:
        self._ending = True
        return ""

    def _terminate(self, words: list[str]) -> str:
        """Takes its time without the lock: others are answered meanwhile, and refused."""
        with self._lock:
            self._look()
            server = self._serving(words[0]) if len(words) == 2 else None
            if self._fake.refuse or server is None or int(words[1]) not in server.clients:
                return "Failed to terminate: no such client of that server\n"
            self._closed_until = time.monotonic() + self._fake.terminating_s
        time.sleep(self._fake.terminating_s)
        with self._lock:
            self._driver.report("--terminate", words[1])
            self._leave(server, int(words[1]))
        return ""

    def _serving(self, pid: str) -> Server | None:
        server = self._server
        return server if server is not None and str(server.pid) == pid else None

    # --- what happens by itself ---------------------------------------------------------

    def _look(self) -> None:
        """Clients that are gone, a server that is gone, and the stub driver's word."""
        self._follow(self._driver.report())
        server = self._server
        if server is None:
            return
        if os.waitpid(server.pid, os.WNOHANG) != (0, 0):
            self._server_is_gone(server, "1")
            return
        for pid, client in list(server.clients.items()):
            if started(pid) != client.started:
                self._leave(server, pid)
        if not server.clients and self._waiting:
            self._end_server("another user waits")
            waiting, self._waiting = self._waiting, []
            for pid, uid in waiting:
                self._connect(pid, uid)

    def _follow(self, report: dict[str, Any] | None) -> None:
        if report is None:
            return
        clients = report["clients"]
        there = {int(one["pid"]) for one in clients if one["error"] != TERMINATED}
        server = self._server
        if server is not None:
            self._follow_faults(server, report)
            for pid in set(server.clients) - there:
                self._leave(server, pid)
        self._faults = report["faults"]
        for pid in there - set(self._server.clients if self._server else ()):
            self._connect(pid, _uid(pid), told=True)

    def _follow_faults(self, server: Server, report: dict[str, Any]) -> None:
        """Also one after which all clients have gone before anybody looked."""
        state, told = report["state"], self._faults
        passed = told is not None and report["faults"] > told
        server.undefined = state not in (ACTIVE, FAULT)
        if server.fault or (state == ACTIVE and not passed):
            return
        guilty = "last_fault_pid" if state in (ACTIVE, FAULT) else "last_unsafe_pid"
        self._fault(server, report[guilty])
        self._recover(server)

    def _connect(self, pid: int, uid: int, *, told: bool = False) -> str:
        """What the client gets: "" or the CUDA error. `told`: the stub driver let it in."""
        if self._server is None:
            self._start_server(uid)
        server = self._server
        if server is None or server.fault or time.monotonic() < self._closed_until:
            return "807" if not told else ""
        if uid != server.uid and not self._multiuser:
            self._waiting.append((pid, uid))
            text = f"NEW CLIENT {pid} from user {uid}: Server is not ready, push client to pending"
            self._control_log(f"{text} list")
            return "waits"
        if len(server.clients) >= MAX_CLIENTS:
            return "808"
        server.clients[pid] = Client(uid, started(pid))
        self._server_log(server, f"New client {pid} connected")
        return ""

    def _leave(self, server: Server, pid: int) -> None:
        if server.clients.pop(pid, None) is None:
            return
        self._server_log(server, f"Client {pid} disconnected")
        self._recover(server)

    def _recover(self, server: Server) -> None:
        """Well again once all that were there have gone; what a client left undefined stays so."""
        waits = server.undefined or any(client.hit for client in server.clients.values())
        if server.fault and not waits:
            server.fault = False
            self._server_log(server, "Volta MPS: Server has recovered and is ACTIVE")

    def _fault(self, server: Server, guilty: int | None) -> None:
        server.fault = True
        self._server_log(server, "Volta MPS: Server is handling a fatal GPU error.")
        for pid, client in server.clients.items():
            client.hit = True
            self._server_log(server, f"Volta MPS: status of client {{{pid}, 1}} is INACTIVE")
        self._server_log(server, "Volta MPS: The following devices will be reset:", "0")
        hit = [str(pid) for pid in server.clients]
        self._server_log(server, "Volta MPS: The following clients have a sticky error set:", *hit)
        if guilty:
            self._server_log(server, f"Volta MPS: Client {guilty} caused a memory fault")

    def _start_server(self, uid: int) -> None:
        pid = os.fork()
        if pid == 0:
            _be_a_server(self._lifeline[0])
        self._server = Server(
            pid, uid, time.monotonic() + self._fake.initializing_s, percentage=self._percentage
        )
        self._control_log(f"Starting new server {pid} for user {uid}")
        self._control_log(f"NEW SERVER {pid}: Ready")

    def _end_server(self, why: str) -> None:
        server = self._server
        if server is not None:
            os.kill(server.pid, signal.SIGKILL)
            os.waitpid(server.pid, 0)
            self._server_is_gone(server, "0")
            self._control_log(f"Server shut down: {why}")

    def _server_is_gone(self, server: Server, code: str) -> None:
        """Who was connected to it has lost it."""
        self._server = None
        self._control_log(f"Server {server.pid} exited with status {code}")
        self._driver.report("--restart")

    # --- what a test wants --------------------------------------------------------------

    def _fakes(self, words: list[str]) -> str:
        fake, (name, *rest) = self._fake, words
        if name in ("connect", "disconnect", "fault"):
            return self._fakes_clients(name, [int(word) for word in rest])
        changes: dict[str, Callable[[], None]] = {
            "slow": lambda: setattr(fake, "slow_s", float(rest[0])),
            "terminating": lambda: setattr(fake, "terminating_s", float(rest[0])),
            "initializing": lambda: setattr(fake, "initializing_s", float(rest[0])),
            "say": lambda: setattr(fake, "say", " ".join(rest) + "\n"),
            "huge": lambda: setattr(fake, "say", "x" * HUGE_BYTES),
            "refuse": lambda: setattr(fake, "refuse", True),
            "honest": lambda: setattr(self, "_fake", Fakery()),
            "crash": lambda: os.kill(os.getpid(), signal.SIGKILL),
        }
        changes[name]()
        return ""

    def _fakes_clients(self, name: str, numbers: list[int]) -> str:
        pid = numbers[0] if numbers else None
        if name == "connect" and pid is not None:
            return self._connect(pid, numbers[1] if len(numbers) > 1 else _uid(pid))
        if self._server is not None and name == "fault":
            self._fault(self._server, pid)
        elif self._server is not None and pid is not None:
            self._leave(self._server, pid)
        return ""

    def _control_log(self, text: str) -> None:
        _write(self._logs / "control.log", "Control", os.getpid(), [text])

    def _server_log(self, server: Server, *texts: str) -> None:
        _write(self._logs / "server.log", "Server", server.pid, texts)


def _lifeline_of_ours() -> int | None:
    """The reading end of $STUB_LIFELINE: it hangs up when the last writer is gone."""
    path = os.environ.get("STUB_LIFELINE")
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK) if path else None


def _be_a_server(lifeline: int) -> None:
    """In the child: to be there, with nothing open, until it is killed or the daemon is gone."""
    os.dup2(lifeline, 0)
    os.closerange(1, os.sysconf("SC_OPEN_MAX"))
    os.read(0, 1)
    os._exit(0)


def _uid(pid: int) -> int:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return 0


def _write(path: Path, part: str, pid: int, texts: Any) -> None:
    """Opened anew for every line: a rotated log goes on in a new file."""
    now = time.time()
    stamp = (
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03}"
    )
    with path.open("a") as log:
        log.writelines(f"[{stamp} {part} {pid:5}] {text}\n" for text in texts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
