"""Who may do what, and where: the whole matrix."""

from __future__ import annotations

import itertools

import pytest
from django.core.exceptions import PermissionDenied

from console.accounts import access
from console.accounts.models import Role, RoleBinding
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import a_pool

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("held", "asked"), list(itertools.product(Role, repeat=2)))
def test_a_role_covers_itself_seeing_and_for_an_admin_everything(held, asked):
    pool = a_pool()
    expected = asked in (held, Role.VIEWER) or held == Role.ADMIN
    assert access.allowed(a_user("here", held, pool=pool), asked, pool) == expected
    assert access.allowed(a_user("everywhere", held), asked, pool) == expected
    assert access.allowed(a_user("global", held), asked) == expected


@pytest.mark.parametrize(("held", "asked"), list(itertools.product(Role, repeat=2)))
def test_a_role_in_one_pool_opens_no_other(held, asked):
    user = a_user("here", held, pool=a_pool("web"))
    assert not access.allowed(user, asked, a_pool("batch"))
    assert access.allowed(user, asked) == (asked == Role.VIEWER)


def test_nobody_is_allowed_anything_without_a_binding():
    assert not any(access.allowed(a_user(role, **{}), role, a_pool()) for role in Role)


def test_a_person_who_left_is_allowed_nothing():
    user = a_user("left", Role.ADMIN, is_active=False)
    assert not access.allowed(user, Role.VIEWER)
    assert not access.pools_for(user, Role.VIEWER)


def test_a_superuser_needs_no_binding():
    user = a_user("root", is_superuser=True)
    assert all(access.allowed(user, role, a_pool()) for role in Role)
    assert list(access.pools_for(user, Role.ADMIN)) == [a_pool()]


def test_the_refusal_names_the_role_and_the_pool():
    with pytest.raises(PermissionDenied, match="role approver in pool web"):
        access.require(a_user("viewer", Role.VIEWER), Role.APPROVER, a_pool())
    with pytest.raises(PermissionDenied, match="role admin in all pools"):
        access.require(a_user("other", Role.ADMIN, pool=a_pool()), Role.ADMIN)


def test_one_of_several_roles_is_enough():
    user = a_user("approver", Role.APPROVER)
    access.require_one(user, (Role.OPERATOR, Role.APPROVER), a_pool())
    with pytest.raises(PermissionDenied, match="operator"):
        access.require_one(a_user("viewer", Role.VIEWER), (Role.OPERATOR, Role.APPROVER))


def test_pools_are_those_of_the_bindings():
    web, batch = a_pool("web"), a_pool("batch")
    user = a_user("mixed", Role.OPERATOR, pool=web)
    RoleBinding.objects.create(user=user, role=Role.VIEWER, pool=batch)
    assert set(access.pools_for(user, Role.VIEWER)) == {web, batch}
    assert list(access.pools_for(user, Role.OPERATOR)) == [web]
    assert not access.pools_for(user, Role.ADMIN)
    assert set(access.pools_for(a_user("all", Role.VIEWER), Role.VIEWER)) == {web, batch}


def test_asking_often_reads_the_bindings_once(django_assert_num_queries):
    user, pool = a_user("viewer", Role.VIEWER), a_pool()
    with django_assert_num_queries(1):
        for role in Role:
            access.allowed(user, role, pool)


def test_the_word_for_a_person_is_their_highest_role():
    assert access.role_name(a_user("one", Role.VIEWER, Role.APPROVER)) == "approver"
    assert access.role_name(a_user("none")) == ""
