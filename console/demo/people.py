"""The cast of the demo: one person for each way of looking at the product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from console.accounts.models import Role, RoleBinding, User


@dataclass(frozen=True)
class Person:
    username: str
    first_name: str
    last_name: str
    role: str
    bindings: tuple[Role, ...]


CAST: Final = (
    Person("lindqvist", "Alma", "Lindqvist", "viewer", (Role.VIEWER,)),
    Person(
        "ortega",
        "Mara",
        "Ortega",
        "approver",
        (Role.OPERATOR, Role.APPROVER, Role.POLICY_AUTHOR),
    ),
    Person("okafor", "Jide", "Okafor", "admin", (Role.ADMIN,)),
)


def create(password: str) -> None:
    for person in CAST:
        user = User.objects.create_user(
            person.username,
            password=password,
            first_name=person.first_name,
            last_name=person.last_name,
            is_staff=person.role == "admin",
            is_superuser=person.role == "admin",
        )
        RoleBinding.objects.bulk_create(
            RoleBinding(user=user, role=role) for role in person.bindings
        )


def with_role(role: str) -> User | None:
    """The demo's person for this role, or None when there is no such role."""
    return User.objects.filter(username=username(role)).first()


def username(role: str) -> str:
    """Of the demo's person for this role, "" when there is no such role."""
    return next((person.username for person in CAST if person.role == role), "")
