"""People with roles, for every test that asks who may do what."""

from __future__ import annotations

from console.accounts.models import Role, RoleBinding, User
from console.inventory.models import Pool


def a_user(name: str, *roles: Role, pool: Pool | None = None, **fields) -> User:
    """A person who holds `roles` in `pool`, or in all pools."""
    user = User.objects.create(username=name, **fields)
    RoleBinding.objects.bulk_create(RoleBinding(user=user, role=role, pool=pool) for role in roles)
    return user
