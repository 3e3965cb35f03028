"""What pages and the API read of services and jobs."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from console.accounts import access
from console.accounts.models import Role, User
from console.scheduling.models import Placement
from console.workloads.models import OfflineJob


def jobs_in_sight(jobs: QuerySet[OfflineJob], user: User) -> QuerySet[OfflineJob]:
    """The jobs that `user` may see: their own, those for any pool, those of their pools.

    A job names its pools in a JSON list, which no two databases search alike: it is seen by the
    pools where it has been placed, and by name among those that wait.
    """
    if access.sees_all(user):
        return jobs
    pools = access.pools_for(user, Role.VIEWER)
    placed = Placement.objects.filter(gpu__node__pool__in=pools).values("job")
    named = Q()
    for name in pools.values_list("name", flat=True):
        named |= Q(pools__icontains=f'"{name}"')
    return jobs.filter(Q(owner=user) | Q(pools=[]) | Q(pk__in=placed) | named)
