"""`muxflow-agent check-config`: the settings that hold, where each came from, what is wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from agents.config import CannotRun, Config
from agents.settings import files
from agents.settings.effective import Effective
from agents.settings.flags import gather, parser_of
from agents.settings.redact import redacted
from agents.settings.table import SETTINGS, shown


def main(words: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """0 when the agent would start with these settings, 1 with a sentence for each fault."""
    options = parser_of("muxflow-agent check-config", __doc__ or "").parse_args(words)
    try:
        effective = gather(options, environment)
    except CannotRun as error:
        sys.stderr.write(f"muxflow-agent: {error}\n")
        return 1
    sys.stdout.write(as_text(effective))
    faults = [*effective.faults, *_faults_of_files(effective.config)]
    for fault in faults:
        sys.stderr.write(f"muxflow-agent: {fault}\n")
    return 1 if faults else 0


def as_text(effective: Effective) -> str:
    """A line for each setting; secrets are hidden."""
    rows = [
        (name, redacted(shown(getattr(effective.config, name))) or "-", effective.origins[name])
        for name in SETTINGS
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "".join(
        f"{name:{widths[0]}}  {value:{widths[1]}}  {where}\n" for name, value, where in rows
    )


def _faults_of_files(config: Config) -> list[str]:
    """Of what the settings name and the agent cannot start without."""
    maybe = (config.cluster, config.tls_ca, config.tls_cert, config.tls_key)
    named = [path for path in maybe if path is not None]
    if config.write_cluster is None:
        named.insert(0, config.credentials)
    return [sentence for path in named if (sentence := files.why_not_trusted(path))]
