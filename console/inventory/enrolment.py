"""How a machine becomes a node: a one-time token buys a node token and a signing key."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import transaction

from agents.wire.codec import node_key
from agents.wire.credentials import Credentials
from agents.wire.limits import MAX_NAME_CHARS
from agents.wire.messages import GpuInventory
from console.accounts.models import User
from console.accounts.tokens import digest
from console.audit.services import agent, person, record
from console.errors import Invalid, Refused
from console.inventory.lifecycle import CONNECTED
from console.inventory.models import EnrolmentToken, Node, Pool
from console.inventory.nodes import record_gpus, touch

VALID_FOR: Final = timedelta(hours=1)
ENROL_PREFIX: Final = "enrol_"
NODE_PREFIX: Final = "node_"
_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME_CHARS - 1}}}", re.ASCII)


@transaction.atomic
def issue(pool: Pool, user: User, now: datetime) -> str:
    """The secret that lets one machine join `pool` within the hour. It is kept nowhere."""
    secret = ENROL_PREFIX + secrets.token_urlsafe(32)
    token = EnrolmentToken.objects.create(
        sha256=digest(secret),
        pool=pool,
        created_by=user,
        created_at=now,
        expires_at=now + VALID_FOR,
    )
    record(person(user), "enrolment.issue", token, now=now, pool=pool.name)
    return secret


@transaction.atomic
def enrol(secret: str, node_name: str, gpus: Sequence[GpuInventory], now: datetime) -> Credentials:
    """What the new node needs to connect.

    A name that is known already gets new credentials, unless its agent is connected: then Refused.
    Raises PermissionDenied for a token that is unknown, used or over, Invalid for a bad name. A
    call that raises leaves the token as it was.
    """
    token = _spend(secret, now)
    node = _node(node_name, token.pool, now)
    record_gpus(node, gpus, now)
    EnrolmentToken.objects.filter(pk=token.pk).update(used_by=node)
    record(agent(node.name), "node.enrol", node, now=now, pool=token.pool.name)
    touch([node.pk], now)
    return credentials_for(node)


def credentials_for(node: Node) -> Credentials:
    """New credentials; the node's former token is closed by this."""
    secret = NODE_PREFIX + secrets.token_urlsafe(32)
    Node.objects.filter(pk=node.pk).update(token_sha256=digest(secret))
    return Credentials(
        node=node.name, node_id=str(node.pk), token=secret, key_hex=signing_key(node.pk).hex()
    )


def signing_key(node_id: int) -> bytes:
    """The key that signs what this node is sent."""
    return node_key(settings.MASTER_SECRET.encode(), str(node_id))


def nodes_for(token_sha256s: Iterable[str]) -> dict[str, Node]:
    """The nodes whose bearer tokens have these hashes. Found by the hash, so timing tells
    nothing."""
    found = Node.objects.filter(token_sha256__in=list(token_sha256s))
    return {node.token_sha256: node for node in found}


def _spend(secret: str, now: datetime) -> EnrolmentToken:
    """Compare-and-set: of two machines with one token, one joins."""
    mine = EnrolmentToken.objects.filter(sha256=digest(secret))
    if not mine.filter(used_at=None, expires_at__gt=now).update(used_at=now):
        raise PermissionDenied(
            "This enrolment token is unknown, used or expired;"
            " make a new one under Settings, Enrolment."
        )
    return mine.select_related("pool").get()


def _node(name: str, pool: Pool, now: datetime) -> Node:
    _check_name(name)
    node, created = Node.objects.get_or_create(
        name=name, defaults={"pool": pool, "state_since": now}
    )
    if not created and node.pool_id != pool.pk:
        raise Refused(
            f"{name} is a node of pool {node.pool.name}, the token is for pool {pool.name}:"
            " use another name, or a token of that pool."
        )
    if node.state == CONNECTED:
        raise Refused(f"{name} is connected: stop its agent first, or use another name.")
    return node


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} is no node name: use letters, digits, dots and hyphens,"
            f" at most {MAX_NAME_CHARS}.",
            {"node": "Use the machine's host name."},
        )
