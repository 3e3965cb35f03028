"""Who may do what, and where. Every view, API and service asks here and nowhere else."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

from console.accounts.models import Role, User
from console.inventory.models import Pool


class SreRequest(HttpRequest):
    """A request of somebody who signed in; the middleware sends everybody else away."""

    user: User
    htmx: HtmxDetails


def allowed(user: User, role: Role | str, pool: Pool | None = None) -> bool:
    """Whether `user` holds `role` in `pool`; without a pool, whether they hold it everywhere.

    Any role lets its holder see, and ADMIN includes every role. Seeing what belongs to no pool
    (rounds, audit, policies) takes a role in any pool.
    """
    role = Role(role)
    if not user.is_active:
        return False
    if user.is_superuser:
        return True
    if role == Role.VIEWER and pool is None:
        return bool(user.roles_held)
    held = user.roles_held.get(None, frozenset())
    if pool is not None:
        held |= user.roles_held.get(pool.pk, frozenset())
    return _covers(held, role)


def require(user: User, role: Role | str, pool: Pool | None = None) -> None:
    """Raises PermissionDenied with the sentence that says which role is missing, and where."""
    if not allowed(user, role, pool):
        raise PermissionDenied(missing(role, pool))


def allowed_one(user: User, roles: tuple[Role, ...], pool: Pool | None = None) -> bool:
    """Whether `user` holds at least one of `roles`."""
    return any(allowed(user, role, pool) for role in roles)


def require_one(user: User, roles: tuple[Role, ...], pool: Pool | None = None) -> None:
    """Raises PermissionDenied unless `user` holds at least one of `roles`."""
    if not allowed_one(user, roles, pool):
        raise PermissionDenied(missing(roles[0], pool))


def missing(role: Role | str, pool: Pool | None = None) -> str:
    """Why a control is closed: `You need the role approver in pool web; an admin can give it.`"""
    word = Role(role).label.lower()
    where = f"in pool {pool.name}" if pool else "in all pools"
    return f"You need the role {word} {where}; an admin can give it under Settings."


def pools_for(user: User, role: Role | str) -> QuerySet[Pool]:
    """The pools in which `user` holds `role`."""
    if sees_all(user) and allowed(user, role):
        return Pool.objects.all()
    if not user.is_active:
        return Pool.objects.none()
    ids = [pool for pool, held in user.roles_held.items() if _covers(held, Role(role))]
    return Pool.objects.filter(pk__in=[pool for pool in ids if pool is not None])


def sees_all(user: User) -> bool:
    """True for those whose view is not limited to some pools."""
    return user.is_active and (user.is_superuser or None in user.roles_held)


def role_name(user: User) -> str:
    """The word for the highest role that `user` holds anywhere; empty without any."""
    if user.is_superuser:
        return Role.ADMIN.label.lower()
    held = frozenset[str]().union(*user.roles_held.values())
    return next((role.label.lower() for role in reversed(Role) if role in held), "")


def _covers(held: frozenset[str], role: Role) -> bool:
    return Role.ADMIN in held or role in held or (role == Role.VIEWER and bool(held))
