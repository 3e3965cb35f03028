"""People, what they may do in which pool, and the tokens that act for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q


class User(AbstractUser):
    """A person who signs in. What they may do is in their role bindings."""

    @cached_property
    def roles_held(self) -> Mapping[int | None, frozenset[str]]:
        """Roles by pool id; the key None holds those for all pools. Read once a request."""
        held = defaultdict[int | None, set[str]](set)
        for pool_id, role in self.bindings.values_list("pool_id", "role"):
            held[pool_id].add(role)
        return {pool_id: frozenset(roles) for pool_id, roles in held.items()}


class Role(models.TextChoices):
    """Each role includes what a viewer sees; ADMIN includes all others. Rising in weight."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    POLICY_AUTHOR = "policy_author", "policy author"
    APPROVER = "approver"
    ADMIN = "admin"


class RoleBinding(models.Model):
    """This person holds this role in this pool, or everywhere when the pool is empty."""

    user = models.ForeignKey(User, models.CASCADE, related_name="bindings")
    role = models.CharField(max_length=20, choices=Role.choices)
    pool = models.ForeignKey("inventory.Pool", models.CASCADE, null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "role", "pool"],
                condition=~Q(pool=None),
                name="one_binding_in_a_pool",
            ),
            models.UniqueConstraint(
                fields=["user", "role"], condition=Q(pool=None), name="one_binding_everywhere"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.get_role_display()} in {self.pool or 'all pools'}"


class ApiToken(models.Model):
    """A bearer token of the REST API. Only its SHA-256 is kept; it acts as its user."""

    user = models.ForeignKey(User, models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    sha256 = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"
