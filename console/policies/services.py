"""The only writer of policies. A version is never changed: saving makes the next one."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from agents.wire.names import Origin
from console.accounts import access
from console.accounts.models import Role, User
from console.announce import announce
from console.audit import services as audit
from console.errors import Invalid, SomebodyWasFirst
from console.inventory import nodes
from console.inventory.models import Node, Pool
from console.policies import rules
from console.policies.models import Policy, PolicyVersion
from console.policies.rules import Lane, PolicyBody

DEFAULT: Final = "balanced"


def save_version(
    policy: Policy, body: PolicyBody, user: User, reason: str, now: datetime
) -> PolicyVersion:
    """The next version, in force from now on in all pools of `policy`.

    `policy` is as the author saw it: when its current version has changed since, raises
    SomebodyWasFirst. Raises PermissionDenied, and Invalid for a bad body, for one that changes
    nothing, and for a missing reason.
    """
    require_author(user, policy)
    seen = body_of(policy.current)
    _check(body, seen, reason)
    with transaction.atomic():
        version = _next_version(policy, body, user, reason.strip(), now)
        _touch(policy, now)
        audit.record(
            audit.person(user),
            "policy.save_version",
            policy,
            now=now,
            reason=version.reason,
            version=version.number,
            changes=[change._asdict() for change in rules.diff(seen, body)] if seen else [],
        )
    return version


def require_author(user: User, policy: Policy) -> None:
    """Raises PermissionDenied unless `user` may change every pool that `policy` governs."""
    pools: list[Pool | None] = [*pools_of(policy)]
    for pool in pools or [None]:
        access.require(user, Role.POLICY_AUTHOR, pool)


def require_seen(policy: Policy, number: int | str) -> None:
    """Raises SomebodyWasFirst unless the author saw the version that is still in force."""
    if policy.current and str(number) != str(policy.current.number):
        raise somebody_was_first(policy)


def _check(body: PolicyBody, seen: PolicyBody | None, reason: str) -> None:
    if errors := rules.check(body):
        raise Invalid("The policy was not saved: some values do not fit.", errors)
    if body == seen:
        raise Invalid("Nothing was changed, so there is nothing to save.")
    if not reason.strip():
        raise Invalid("Say why: a later reader will ask.", {"reason": "choose or write a reason"})


def _next_version(
    policy: Policy, body: PolicyBody, user: User | None, reason: str, now: datetime
) -> PolicyVersion:
    seen_id = policy.current_id
    number = policy.current.number + 1 if policy.current else 1
    try:
        with transaction.atomic():
            version = policy.versions.create(
                number=number, body=rules.to_json(body), created_at=now, author=user, reason=reason
            )
    except IntegrityError:
        raise somebody_was_first(policy) from None
    if not Policy.objects.filter(pk=policy.pk, current=seen_id).update(current=version):
        raise somebody_was_first(policy)
    policy.current = version
    return version


def somebody_was_first(policy: Policy) -> SomebodyWasFirst:
    """The error that names who saved a version meanwhile."""
    fresh = PolicyVersion.objects.select_related("author").filter(policy=policy).first()
    author = fresh.author if fresh else None
    who = (author.get_full_name() or author.get_username()) if author else "Somebody"
    number = fresh.number if fresh else 1
    return SomebodyWasFirst(
        f"{who} was first and saved version {number} of {policy.name} while you were editing."
    )


def _touch(policy: Policy, now: datetime) -> None:
    ids = Node.objects.filter(pool__in=pools_of(policy)).values_list("pk", flat=True)
    nodes.touch(list(ids), now)
    announce("policies", slug=policy.slug)


def pools_of(policy: Policy) -> QuerySet[Pool]:
    """The pools that `policy` governs; the default one also those without a policy."""
    mine = Q(policy=policy)
    return Pool.objects.filter(mine | Q(policy=None) if policy.slug == DEFAULT else mine)


def version_for(pool: Pool) -> PolicyVersion:
    """The version in force in `pool`: its own policy's, else that of the default policy."""
    policy = pool.policy or default_policy()
    if policy.current is None:
        raise Invalid(f"Policy {policy.name} has no version yet; save one under Policies.")
    return policy.current


def rules_for(pool: Pool) -> PolicyBody:
    return rules.parse(version_for(pool).body)


def lane_for(pool: Pool, origin: Origin) -> Lane:
    return rules_for(pool).lane(origin)


def body_of(version: PolicyVersion | None) -> PolicyBody | None:
    return rules.parse(version.body) if version else None


def default_policy() -> Policy:
    """The policy of pools without one; made on first need, so that nobody is ever without."""
    found = Policy.objects.select_related("current").filter(slug=DEFAULT).first()
    if found is None or found.current is None:
        ensure_defaults(timezone.now(), settings.MUXFLOW_DEMO)
        found = Policy.objects.select_related("current").get(slug=DEFAULT)
    return found


def ensure_defaults(now: datetime, demo: bool) -> None:
    """Make Conservative, Balanced and Aggressive where missing, and give every pool a policy.

    What exists already stays as it is. With `demo` the new ones wait only for seconds.
    """
    with transaction.atomic():
        for name, body in rules.presets(demo).items():
            _ensure(name, body, now)
        without = Pool.objects.filter(policy=None)
        without.update(policy=Policy.objects.get(slug=DEFAULT))


def _ensure(name: str, body: PolicyBody, now: datetime) -> None:
    policy, _ = Policy.objects.get_or_create(slug=name, defaults={"name": name.capitalize()})
    if policy.current is None:
        _next_version(policy, body, None, "As delivered", now)
        audit.record(audit.system("policies"), "policy.create", policy, now=now, version=1)
