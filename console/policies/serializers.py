"""What the REST API says of policies."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from console.policies.models import Policy, PolicyVersion


class VersionSerializer(serializers.ModelSerializer[PolicyVersion]):
    policy = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)
    author = serializers.SlugRelatedField[Any](
        slug_field="username", read_only=True, allow_null=True
    )
    body = serializers.DictField(read_only=True)

    class Meta:
        model = PolicyVersion
        fields = ("policy", "number", "body", "created_at", "author", "reason")


class PolicySerializer(serializers.ModelSerializer[Policy]):
    current = VersionSerializer(read_only=True)
    pools = serializers.SlugRelatedField[Any](
        source="pool_set", slug_field="name", many=True, read_only=True
    )

    class Meta:
        model = Policy
        fields = ("slug", "name", "pools", "current")


class NewVersionSerializer(serializers.Serializer[Any]):
    """`based_on` is the version that the author saw in force; another one since then is a 409."""

    body = serializers.DictField()
    reason = serializers.CharField(max_length=1_000)
    based_on = serializers.IntegerField(min_value=1)


class AppliedSerializer(serializers.Serializer[Any]):
    """How many nodes report the version in force."""

    number = serializers.IntegerField()
    nodes = serializers.IntegerField(source="total")
    on_it = serializers.IntegerField()
