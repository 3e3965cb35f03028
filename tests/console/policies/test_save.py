"""Saving a version: who may, what it checks, whom it tells, and who was first."""

from __future__ import annotations

import msgspec
import pytest
from django.core.exceptions import PermissionDenied
from django.core.management import call_command

from console.accounts.models import Role
from console.audit.models import Entry
from console.errors import Invalid, SomebodyWasFirst
from console.inventory.models import Node, Pool
from console.policies import rules, services
from console.policies.models import Policy, PolicyVersion
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW, a_node, a_pool
from tests.console.policies.cast import a_policy, an_author, body_of, with_memory

pytestmark = pytest.mark.django_db


def test_saving_makes_the_next_version_and_puts_it_in_force():
    policy = a_policy()
    version = services.save_version(policy, with_memory(policy, 92), an_author(), " Incident ", NOW)
    assert (version.number, version.reason) == (2, "Incident")
    assert services.version_for(Pool.objects.get()) == version
    assert policy.versions.count() == 2


def test_the_version_before_stays_as_it_was():
    policy = a_policy()
    before = PolicyVersion.objects.get(policy=policy, number=1).body
    services.save_version(policy, with_memory(policy, 92), an_author(), "Trial", NOW)
    assert PolicyVersion.objects.get(policy=policy, number=1).body == before


def test_saving_tells_the_nodes_of_its_pools_and_no_others():
    policy = a_policy()
    Policy.objects.create(name="Other", slug="other")
    a_node("node-02", a_pool("batch", policy=Policy.objects.get(slug="other")))
    services.save_version(policy, with_memory(policy, 92), an_author(), "Trial", NOW)
    generations = dict(Node.objects.values_list("name", "generation"))
    assert generations == {"node-01": 2, "node-02": 1}


def test_saving_leaves_an_entry_with_the_changes():
    policy = a_policy()
    old = body_of(policy).grace_s
    body = msgspec.structs.replace(body_of(policy), grace_s=old + 1)
    services.save_version(policy, body, an_author(), "Trial", NOW)
    entry = Entry.objects.get(action="policy.save_version")
    assert (entry.actor, entry.reason) == ("user:ortega", "Trial")
    assert entry.data["changes"] == [{"field": "grace_s", "old": old, "new": old + 1}]


def test_of_two_editors_the_second_does_not_overwrite_the_first():
    """1. Both open version 1. 2. One saves version 2. 3. The other saves and learns of it."""
    mine = a_policy()
    hers = Policy.objects.select_related("current").get(pk=mine.pk)
    services.save_version(hers, with_memory(hers, 91), an_author(), "Incident", NOW)
    okafor = a_user("okafor", Role.POLICY_AUTHOR)
    with pytest.raises(SomebodyWasFirst, match=r"M\. Ortega was first and saved version 2"):
        services.save_version(mine, with_memory(mine, 93), okafor, "Trial", NOW)
    assert PolicyVersion.objects.filter(policy=mine).count() == 2
    assert Policy.objects.get(pk=mine.pk).current.number == 2


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.APPROVER])
def test_other_roles_save_nothing(role):
    policy = a_policy()
    with pytest.raises(PermissionDenied, match="policy author"):
        services.save_version(policy, with_memory(policy, 92), a_user("lindqvist", role), "x", NOW)
    assert policy.versions.count() == 1


def test_an_author_of_one_pool_cannot_change_what_governs_another():
    policy = a_policy()
    a_pool("batch", policy=policy)
    author = an_author(pool=Pool.objects.get(name="web"))
    with pytest.raises(PermissionDenied, match="batch"):
        services.save_version(policy, with_memory(policy, 92), author, "x", NOW)


def test_a_bad_body_a_missing_reason_and_no_change_are_refused_with_the_field():
    policy, author = a_policy(), an_author()
    with pytest.raises(Invalid) as bad:
        services.save_version(policy, with_memory(policy, upper=60), author, "x", NOW)
    assert list(bad.value.fields) == ["thresholds.memory.upper"]
    with pytest.raises(Invalid) as silent:
        services.save_version(policy, with_memory(policy, 92), author, "  ", NOW)
    assert list(silent.value.fields) == ["reason"]
    with pytest.raises(Invalid, match="Nothing was changed"):
        services.save_version(policy, body_of(policy), author, "x", NOW)


def test_the_defaults_are_made_once_and_given_to_pools_without_a_policy():
    policy = a_policy()
    services.save_version(policy, with_memory(policy, 92), an_author(), "Trial", NOW)
    services.ensure_defaults(NOW, demo=True)
    assert set(Policy.objects.values_list("slug", flat=True)) == set(rules.PRESETS)
    assert Pool.objects.get().policy.current.number == 2


def test_a_console_without_policies_makes_the_default_on_first_need():
    pool = a_pool()
    version = services.version_for(pool)
    assert (version.policy.slug, version.number) == ("balanced", 1)


def test_seeding_for_the_demo_waits_for_seconds(capsys):
    call_command("seed_policies", "--demo")
    call_command("seed_policies")
    assert "Balanced v1" in capsys.readouterr().out
    assert body_of(Policy.objects.get(slug="balanced")).grace_s == 8.0
