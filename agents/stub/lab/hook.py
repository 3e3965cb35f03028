"""`python -m agents.stub.lab restart`: what the agent runs to have an online service restarted."""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Sequence

from agents.wire import lab

TIMEOUT_S = 5.0


def restart(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("lab restart")
    parser.add_argument("service")
    parser.add_argument("--socket", required=True)
    chosen = parser.parse_args(words)
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(TIMEOUT_S)
        line.connect(chosen.socket)
        line.sendall(lab.encode(lab.Restart(chosen.service)))
        with line.makefile("rb") as answers:
            said = lab.decode_said(answers.readline())
    sys.stderr.write(f"{said.error or said.detail}\n")
    return 1 if said.error else 0
