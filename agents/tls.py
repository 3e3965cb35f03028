"""Whom the agent takes for its console, and how it shows who it is itself."""

from __future__ import annotations

import ssl
from pathlib import Path

from agents.config import CannotRun, Config


def context(config: Config) -> ssl.SSLContext:
    """Trusts `tls_ca` where it is named, else the authorities that this machine trusts; shows
    `tls_cert` where that is named. Raises CannotRun."""
    made = _trusting(config.tls_ca)
    if config.tls_cert is not None:
        _show(made, config.tls_cert, config.tls_key)
    return made


def _trusting(authorities: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=authorities)
    except ssl.SSLError as error:
        raise CannotRun(f"tls_ca {authorities} holds no certificate in PEM form") from error
    except OSError as error:
        raise CannotRun(f"cannot read tls_ca {authorities}: {error.strerror}") from error


def _show(made: ssl.SSLContext, certificate: Path, key: Path | None) -> None:
    try:
        # Nobody is there to be asked for a passphrase; an empty one fails.
        made.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        raise CannotRun(
            f"tls_cert {certificate} and its key cannot be used ({error.reason}): both in PEM"
            " form, the key without a passphrase and of this very certificate"
        ) from error
    except OSError as error:
        where = certificate if key is None else f"{certificate} or {key}"
        raise CannotRun(f"cannot read {where}: {error.strerror}") from error
