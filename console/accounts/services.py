"""Give people roles and take them away. Each change is in the audit."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from console.accounts import access
from console.accounts.models import Role, RoleBinding, User
from console.audit.services import person, record
from console.errors import Invalid, Refused, SomebodyWasFirst
from console.inventory.models import Pool


@transaction.atomic
def add_user(username: str, full_name: str, password: str, admin: User, now: datetime) -> User:
    """A person who can sign in and may do nothing yet. Raises PermissionDenied, Invalid."""
    access.require(admin, Role.ADMIN)
    first, _, last = full_name.strip().partition(" ")
    user = User(username=username.strip(), first_name=first[:150], last_name=last[:150])
    try:
        user.set_password(password)
        user.full_clean()
        validate_password(password, user)
    except ValidationError as error:
        fields = getattr(error, "message_dict", {"password": error.messages})
        raise Invalid(
            "The person was not added.", {key: " ".join(texts) for key, texts in fields.items()}
        ) from error
    user.save()
    record(person(admin), "user.add", user, now=now)
    return user


@transaction.atomic
def set_active(user: User, active: bool, admin: User, now: datetime) -> None:
    """Let a person in again, or keep them and their tokens out. Raises Refused for oneself."""
    access.require(admin, Role.ADMIN)
    if user == admin:
        raise Refused("You cannot lock yourself out; ask another admin.")
    if not User.objects.filter(pk=user.pk, is_active=not active).update(is_active=active):
        raise SomebodyWasFirst(f"{user} was changed already.")
    record(person(admin), "user.activate" if active else "user.deactivate", user, now=now)


@transaction.atomic
def bind(user: User, role: Role, pool: Pool | None, admin: User, now: datetime) -> RoleBinding:
    """Give `user` this role in `pool`, or everywhere.

    An admin of a pool may do so in that pool. Raises PermissionDenied, SomebodyWasFirst.
    """
    access.require(admin, Role.ADMIN, pool)
    try:
        with transaction.atomic():
            binding = RoleBinding.objects.create(user=user, role=role, pool=pool)
    except IntegrityError:
        raise SomebodyWasFirst(f"{user} holds this role there already.") from None
    record(person(admin), "role.bind", binding, now=now)
    return binding


@transaction.atomic
def unbind(binding: RoleBinding, admin: User, now: datetime) -> None:
    """Take the role away. Raises PermissionDenied, and Refused for the last admin of all pools."""
    access.require(admin, Role.ADMIN, binding.pool)
    if _is_last_admin(binding):
        raise Refused("This is the last admin of all pools; name another one first.")
    record(person(admin), "role.unbind", binding, now=now)
    if not RoleBinding.objects.filter(pk=binding.pk).delete()[0]:
        raise SomebodyWasFirst("This role was taken away already.")


def _is_last_admin(binding: RoleBinding) -> bool:
    if binding.role != Role.ADMIN or binding.pool is not None:
        return False
    others = RoleBinding.objects.filter(role=Role.ADMIN, pool=None, user__is_active=True)
    superusers = User.objects.filter(is_superuser=True, is_active=True)
    return not others.exclude(pk=binding.pk).exists() and not superusers.exists()
