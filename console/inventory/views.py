"""Nodes, one node, and the sharing modes of pools. Each change is a service's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents.wire.names import SHARING_MODES, SharingMode
from console import figures
from console.accounts import access
from console.accounts.access import SreRequest
from console.accounts.models import Role
from console.api import in_sight
from console.audit.services import person
from console.inventory import draining, emptying, never_share, nodes, queries, sharing
from console.inventory.emptying import live_on
from console.inventory.filters import NodeFilter
from console.inventory.models import Gpu, Node, Pool
from console.inventory.queries import NodePage
from console.inventory.tables import NodeTable
from console.lists import options
from console.pages import act, dialog, reason_of

WHY_OUT: Final = (
    ("Maintenance", "Maintenance"),
    ("Suspect hardware", "Suspect hardware"),
    ("Making room", "Making room"),
)
WHY_STOP: Final = (
    ("Latency incident", "Latency incident"),
    ("Maintenance", "Maintenance"),
    ("Test", "Test"),
)


@require_GET
def node_list(request: SreRequest) -> HttpResponse:
    """All nodes, narrowed by the address."""
    found = NodeFilter(request.GET, queries.nodes(request.user))
    pools = access.pools_for(request.user, Role.VIEWER).values_list("name", flat=True)
    context = {
        "table": NodeTable(request, found.qs),
        "pools": options("All pools", pools),
        "states": options("Any", Node.State.values),
        "filtered": any(request.GET.get(key) for key in ("q", "pool", "state")),
        "may_enrol": access.pools_for(request.user, Role.ADMIN).exists(),
    }
    return render(request, "inventory/nodes.html", context)


@require_GET
def node(request: SreRequest, name: str) -> HttpResponse:
    found = _node(request, name)
    context = {
        "node": found,
        "page": NodePage(found),
        "closed": _closed(request, found.pool),
        "behind": _behind(found),
    }
    template = "inventory/_node_live.html" if request.htmx else "inventory/node.html"
    return render(request, template, context)


@require_POST
def node_cordon(request: SreRequest, name: str) -> HttpResponse:
    return _change_node(request, name, nodes.cordon, "takes no new placements.")


@require_POST
def node_uncordon(request: SreRequest, name: str) -> HttpResponse:
    return _change_node(request, name, nodes.uncordon, "takes new placements again.")


@require_POST
def node_never_share(request: SreRequest, name: str) -> HttpResponse:
    if request.POST.get("never"):
        return _change_node(request, name, never_share.forbid, "is never to be shared.")
    return _change_node(request, name, never_share.allow, "may be shared again.")


@require_http_methods(["GET", "POST"])
def node_drain(request: SreRequest, name: str) -> HttpResponse:
    """First what it would do, then do it."""
    found = _node(request, name)
    access.require(request.user, Role.OPERATOR, found.pool)
    if request.method == "POST":
        return _change_node(request, name, draining.drain, "is being drained.")
    steps = draining.preview_drain(found)
    context = {"title": f"Drain {found}", "node": found, "steps": steps, "reasons": WHY_OUT}
    return dialog(request, "inventory/_drain.html", context)


@require_http_methods(["GET", "POST"])
def gpu_disable(request: SreRequest, gpu_id: int) -> HttpResponse:
    """First what it would do, then take the GPU out of use."""
    gpu = _gpu(request, gpu_id)
    access.require(request.user, Role.OPERATOR, gpu.node.pool)
    if request.method == "POST":
        return _change_gpu(request, gpu, emptying.take_out, "is disabled.")
    guest = live_on([gpu]).first()
    context = {"title": f"Disable {gpu}", "gpu": gpu, "guest": guest, "reasons": WHY_OUT}
    return dialog(request, "inventory/_disable.html", context)


@require_POST
def gpu_enable(request: SreRequest, gpu_id: int) -> HttpResponse:
    gpu = _gpu(request, gpu_id)
    access.require(request.user, Role.OPERATOR, gpu.node.pool)
    return _change_gpu(request, gpu, nodes.enable_gpu, "is judged afresh by its agent.")


@require_POST
def gpu_never_share(request: SreRequest, gpu_id: int) -> HttpResponse:
    gpu = _gpu(request, gpu_id)
    access.require(request.user, Role.OPERATOR, gpu.node.pool)
    if request.POST.get("never"):
        return _change_gpu(request, gpu, never_share.forbid, "is never to be shared.")
    return _change_gpu(request, gpu, never_share.allow, "may be shared again.")


@require_http_methods(["GET", "POST"])
def gpu_mode(request: SreRequest, gpu_id: int) -> HttpResponse:
    """Choose the mode of one GPU; the lower of it and the pool's holds."""
    gpu = _gpu(request, gpu_id)
    access.require_one(request.user, sharing.BRAKE, gpu.node.pool)
    if request.method == "GET":
        return _ask_mode(request, gpu, f"Sharing mode of {gpu}")
    return _set_mode(request, gpu, gpu.node.pool)


@require_GET
def pool_list(request: SreRequest) -> HttpResponse:
    """The sharing mode of each pool, and who changed it, when and why."""
    rows = [
        (pool, _closed(request, pool), access.allowed(request.user, Role.APPROVER, pool))
        for pool in queries.pools(request.user)
    ]
    context = {"rows": rows, "changes": queries.changes(request.user), "modes": SHARING_MODES}
    return render(request, "inventory/pools.html", context)


@require_http_methods(["GET", "POST"])
def pool_mode(request: SreRequest, name: str) -> HttpResponse:
    """Choose the mode of one pool; its GPUs keep their own."""
    pool = get_object_or_404(in_sight(Pool.objects.all(), request.user, ""), name=name)
    if request.method == "GET":
        return _ask_mode(request, pool, f"Sharing mode of pool {pool}")
    return _set_mode(request, pool, pool)


@require_http_methods(["GET", "POST"])
def sharing_start(request: SreRequest) -> HttpResponse:
    """First what it would do, then do it, in the pools named or in all that are open."""
    pools = _pools(request, request.GET if request.method == "GET" else request.POST)
    mine = [pool for pool in pools if access.allowed(request.user, Role.OPERATOR, pool)]
    if not mine:
        access.require(request.user, Role.OPERATOR, pools[0] if len(pools) == 1 else None)
    if request.method == "GET":
        plans = sharing.preview_start(mine)
        starting = sum(len(plan.starting) for plan in plans)
        context = {"title": "Turn sharing on", "plans": plans, "starting": starting}
        return dialog(request, "inventory/_start.html", context)
    actor, reason = person(request.user), reason_of(request)
    return act(
        request,
        lambda: sharing.start(mine, actor, reason, timezone.now()),
        f"Sharing is on in {_count(mine)}. The next round places queued jobs.",
        "overview",
    )


@require_http_methods(["GET", "POST"])
def stop_sharing(request: SreRequest) -> HttpResponse:
    """First what it would stop, then stop it, in the pools named or in all that are open."""
    pools = _pools(request, request.GET if request.method == "GET" else request.POST)
    mine = [pool for pool in pools if access.allowed_one(request.user, sharing.BRAKE, pool)]
    if request.method == "GET":
        context = {
            "title": "Stop sharing",
            "plans": [p for p in sharing.preview_stop(mine) if p.sharing or p.placements],
            "mine": mine,
            "reasons": WHY_STOP,
            "closed": "" if mine else access.missing(Role.OPERATOR),
        }
        return dialog(request, "inventory/_stop.html", context)
    if not mine:
        access.require(request.user, Role.OPERATOR)
    actor, reason = person(request.user), reason_of(request)
    return act(
        request,
        lambda: sharing.stop(mine, actor, reason, timezone.now()),
        "Sharing is off: no new work comes, and what runs has been asked to go.",
        "pools",
    )


def _node(request: SreRequest, name: str) -> Node:
    return get_object_or_404(queries.nodes(request.user), name=name)


def _gpu(request: SreRequest, gpu_id: int) -> Gpu:
    gpus = in_sight(Gpu.objects.select_related("node__pool"), request.user, "node__pool")
    return get_object_or_404(gpus, pk=gpu_id, retired_at=None)


def _pools(request: SreRequest, form: QueryDict) -> list[Pool]:
    """The pools that the form names, or all that the person sees. 404 for an unknown one."""
    mine = in_sight(Pool.objects.all(), request.user, "")
    names = form.getlist("pool")
    found = list(mine.filter(name__in=names) if names else mine)
    if len(found) < len(set(names)):
        raise Http404("There is no such pool, or you may not see it.")
    return found


def _closed(request: SreRequest, pool: Pool) -> str:
    """Why the controls of an operator are closed; empty when they are open."""
    allowed = access.allowed(request.user, Role.OPERATOR, pool)
    return "" if allowed else access.missing(Role.OPERATOR, pool)


def _change_node(
    request: SreRequest, name: str, change: Callable[..., object], done: str
) -> HttpResponse:
    found = _node(request, name)
    access.require(request.user, Role.OPERATOR, found.pool)
    actor, reason = person(request.user), reason_of(request)
    return act(
        request,
        lambda: change(found, actor, reason, timezone.now()),
        f"{found} {done}",
        f"/nodes/{found.name}/",
    )


def _change_gpu(
    request: SreRequest, gpu: Gpu, change: Callable[..., object], done: str
) -> HttpResponse:
    actor, reason = person(request.user), reason_of(request)
    return act(
        request,
        lambda: change(gpu, actor, reason, timezone.now()),
        f"{gpu} {done}",
        f"/gpus/{gpu.pk}/",
    )


def _ask_mode(request: SreRequest, target: Pool | Gpu, title: str) -> HttpResponse:
    pool = target if isinstance(target, Pool) else target.node.pool
    gpus = Gpu.objects.filter(node__pool=pool) if isinstance(target, Pool) else [target]
    context = {
        "title": title,
        "target": target,
        "pool": pool,
        "is_pool": isinstance(target, Pool),
        "modes": [(mode, MEANING[mode]) for mode in SHARING_MODES],
        "fact": "" if isinstance(target, Pool) else sharing.forbidding_fact(target),
        "guests": live_on(gpus).count(),
        "closed": _closed(request, pool),
    }
    return dialog(request, "inventory/_mode.html", context)


MEANING: Final = {
    SharingMode.OFF: "telemetry only, no verdicts",
    SharingMode.OBSERVE: "read-only: says what could be shared, touches nothing",
    SharingMode.SHADOW: "rounds and evictions are computed, nothing is sent",
    SharingMode.ENFORCE: "offline jobs are placed beside online work",
}


def _set_mode(request: SreRequest, target: Pool | Gpu, pool: Pool) -> HttpResponse:
    if request.POST.get("mode") not in SHARING_MODES:
        raise Http404("There is no such sharing mode.")
    mode = SharingMode(request.POST["mode"])
    access.require_one(request.user, sharing.roles_to_set(target.sharing_mode, mode), pool)
    actor, reason = person(request.user), reason_of(request)
    return act(
        request,
        lambda: sharing.set_mode(target, mode, actor, reason, timezone.now()),
        f"{target} is at {mode}.",
        "pools",
    )


def _behind(node: Node) -> dict[str, Any]:
    now = timezone.now()
    wanted = (now - node.generation_at).total_seconds() if node.generation_at else None
    return {
        "differs": node.generation != node.observed_generation,
        "for": figures.span(wanted) if wanted is not None else figures.NO_DATA,
    }


def _count(pools: list[Pool]) -> str:
    return f"pool {pools[0]}" if len(pools) == 1 else f"{len(pools)} pools"
