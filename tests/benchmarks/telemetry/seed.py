"""Rows of a fleet that is enrolled and has never connected: `python -m …seed` with the environment
of the console. Prints {"session": key} as its last line."""

from __future__ import annotations

import argparse
import json
import secrets
from pathlib import Path

import django

django.setup()

from django.conf import settings  # noqa: E402
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY  # noqa: E402
from django.contrib.sessions.backends.db import SessionStore  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.utils import timezone  # noqa: E402

from agents.contention.cluster import build_cluster  # noqa: E402
from agents.wire import credentials  # noqa: E402
from agents.wire.credentials import Credentials  # noqa: E402
from console.accounts.models import User  # noqa: E402
from console.accounts.tokens import digest  # noqa: E402
from console.inventory.enrolment import signing_key  # noqa: E402
from console.inventory.models import Node, Pool  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--gpus", type=int, required=True)
    parser.add_argument("--probes", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--credentials", type=Path, required=True)
    given = parser.parse_args()
    call_command("migrate", verbosity=0)
    cluster = build_cluster(given.nodes, given.gpus, given.seed)
    pool_of = {node.name: node.pool for node in cluster.nodes}
    probes = [f"probe-{number:02d}" for number in range(given.probes)]
    pool_of |= dict.fromkeys(probes, cluster.nodes[0].pool)
    given.credentials.write_bytes(credentials.encode(tuple(enrol(pool_of))))
    print(json.dumps({"session": session()}))


def enrol(pool_of: dict[str, str]) -> list[Credentials]:
    pools = {
        name: Pool.objects.get_or_create(name=name, defaults={"sharing_mode": "enforce"})[0]
        for name in set(pool_of.values())
    }
    tokens = {name: secrets.token_urlsafe(32) for name in pool_of}
    now = timezone.now()
    Node.objects.bulk_create(
        [
            Node(name=name, pool=pools[pool], token_sha256=digest(tokens[name]), state_since=now)
            for name, pool in pool_of.items()
        ],
        batch_size=500,
    )
    return [
        Credentials(node.name, str(node.pk), tokens[node.name], signing_key(node.pk).hex())
        for node in Node.objects.all()
    ]


def session() -> str:
    """Of a person who may see everything."""
    user = User.objects.create_superuser("bench", "bench@example.test", secrets.token_urlsafe())
    store = SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[-1]
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.create()
    return str(store.session_key)


if __name__ == "__main__":
    main()
