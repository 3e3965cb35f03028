"""What the REST API says of people, their roles and their tokens."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from console.accounts.models import ApiToken, RoleBinding, User
from console.inventory.models import Pool


class BindingSerializer(serializers.ModelSerializer[RoleBinding]):
    """`pool` null: everywhere."""

    user = serializers.SlugRelatedField[User](slug_field="username", queryset=User.objects.all())
    pool = serializers.SlugRelatedField[Pool](
        slug_field="name", queryset=Pool.objects.all(), allow_null=True, default=None
    )

    class Meta:
        model = RoleBinding
        fields = ("id", "user", "role", "pool")
        validators = ()


class UserSerializer(serializers.ModelSerializer[User]):
    bindings = BindingSerializer(many=True, read_only=True)

    class Meta:
        model = User
        fields = (
            "id", "username", "first_name", "last_name", "email", "is_active", "last_login",
            "bindings",
        )  # fmt: skip
        read_only_fields = ("last_login",)


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    """`secret` is in the answer that makes the token, and never again."""

    secret = serializers.SerializerMethodField()

    class Meta:
        model = ApiToken
        fields = (
            "id", "name", "prefix", "created_at", "expires_at", "last_used_at", "revoked_at",
            "secret",
        )  # fmt: skip
        read_only_fields = ("prefix", "created_at", "last_used_at", "revoked_at")

    def get_secret(self, token: ApiToken) -> str | None:
        return self.context.get("secret")


class WhoAmISerializer(serializers.Serializer[Any]):
    username = serializers.CharField()
    bindings = BindingSerializer(many=True)
