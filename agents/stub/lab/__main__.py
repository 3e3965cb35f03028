"""The machine of the demo's real node, all but its agent: GPUs, MPS daemons, online services.

    python -m agents.stub.lab --mps-dir DIR --socket SOCKET --metrics-port PORT \\
        --build build/xcuda SERVICE ...                           one service a GPU
    python -m agents.stub.lab restart --socket SOCKET SERVICE     the node's restart hook
    python -m agents.stub.lab gpus                                the UUID of each GPU

The GPUs are those of the stand-in driver, by its settings in the environment. Nothing here is a
child of the agent, and all of it ends with this process, however that ends: the services with
their input, the daemons with their lifeline.
"""

from __future__ import annotations

import argparse
import contextlib
import socketserver
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from agents.stub.lab import daemons, page
from agents.stub.lab.hook import restart
from agents.stub.lab.presses import CannotPress, Presses
from agents.stub.lab.service import Service
from agents.wire import lab
from agents.wire.lab import Question, Restart, Said, Tell, Terminate
from agents.wire.ready import notify_ready

KEEP_S = 1.0


def main(words: Sequence[str]) -> int:
    if words[:1] == ["restart"]:
        return restart(words[1:])
    if words[:1] == ["gpus"]:
        sys.stdout.write("".join(f"{uuid}\n" for uuid in daemons.uuids()))
        return 0
    options = _parser().parse_args(words)
    machine = Machine(options)
    page.serve(machine.services, options.metrics_port)
    threading.Thread(target=machine.listen, args=(options.socket,), daemon=True).start()
    for service in machine.services.values():
        threading.Thread(target=service.run, name=service.name, daemon=True).start()
    machine.keep()
    return 0


class Machine:
    """What it is made of, and what it answers to whoever asks."""

    def __init__(self, options: argparse.Namespace) -> None:
        cards = daemons.cards(options.mps_dir, daemons.uuids())
        report = options.build / "mps-report"
        self.services = {
            name: Service(name, card.uuid, _environment(card))
            for name, card in zip(options.services, cards, strict=True)
        }
        by_gpu = {service.gpu_uuid: service for service in self.services.values()}
        self._daemons = daemons.Daemons(options.mps_dir, cards, report)
        self._presses = Presses(cards, by_gpu, report, options.build / "libxcuda.so")

    def keep(self) -> None:
        """For ever: the daemons are there. Reports once that all is up."""
        self._daemons.keep()
        notify_ready()
        while True:
            time.sleep(KEEP_S)
            self._daemons.keep()

    def listen(self, path: Path) -> None:
        answer = self.answer

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    self.wfile.write(lab.encode(answer(self.rfile.readline(65_536))))

        path.unlink(missing_ok=True)
        with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
            server.daemon_threads = True
            server.serve_forever()

    def answer(self, line: bytes) -> Said:
        try:
            return self._done(lab.decode_question(line))
        except (CannotPress, msgspec.DecodeError) as error:
            return Said(error=str(error))

    def _done(self, question: Question) -> Said:
        match question:
            case Terminate(under_xcuda):
                press = self._presses.press(under_xcuda=under_xcuda)
                detail = f"SIGTERM sent to {press.job} (PID {press.pid}) amid its kernels."
                return Said(detail=detail, presses=self._presses.told())
            case Restart(name):
                if name not in self.services:
                    return Said(error=f"no service {name} runs here")
                self.services[name].restart()
                return Said(detail=f"{name} is started")
            case Tell():
                return Said(presses=self._presses.told())


def _environment(card: daemons.Card) -> dict[str, str]:
    """Of a client of the GPU's daemon."""
    return {"CUDA_VISIBLE_DEVICES": card.uuid} | card.place.environment()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("lab", description=__doc__)
    parser.add_argument("services", nargs="+", metavar="SERVICE")
    parser.add_argument("--mps-dir", type=Path, required=True)
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--metrics-port", type=int, required=True)
    parser.add_argument("--build", type=Path, required=True, help="where `make xcuda` builds")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
