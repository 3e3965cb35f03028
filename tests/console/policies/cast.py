"""Policies in force in a pool with one node, and the people who may change them."""

from __future__ import annotations

import msgspec

from agents.wire.names import Signal
from console.accounts.models import Role, User
from console.policies import rules, services
from console.policies.models import Policy
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW, a_node, a_pool


def a_policy(gpus: int = 0) -> Policy:
    """Balanced, in force in the pool `web` with one node."""
    a_node(pool=a_pool(), gpus=gpus, state="CONNECTED")
    services.ensure_defaults(NOW, demo=False)
    return find()


def find() -> Policy:
    return Policy.objects.select_related("current").get(slug="balanced")


def an_author(**fields) -> User:
    return a_user("ortega", Role.POLICY_AUTHOR, first_name="M.", last_name="Ortega", **fields)


def body_of(policy: Policy) -> rules.PolicyBody:
    body = services.body_of(policy.current)
    assert body is not None
    return body


def with_memory(policy: Policy, upper: float) -> rules.PolicyBody:
    """What is in force, with another memory limit."""
    body = body_of(policy)
    memory = msgspec.structs.replace(body.thresholds[Signal.MEMORY], lower=80.0, upper=upper)
    return msgspec.structs.replace(body, thresholds=body.thresholds | {Signal.MEMORY: memory})
