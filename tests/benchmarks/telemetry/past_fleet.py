"""Fills a database with the past of so many GPUs and asks for charts of it: `python -m …past_fleet
GPUS DAYS ASKS` with the environment of the console. Prints figures as JSON.

One hour of 64 GPUs is made up, second by second, and packed by the product's own code; other nodes
and hours repeat its blocks under their own names. The last hour is in minutes at first, until it is
rolled up.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import django

django.setup()

import msgspec  # noqa: E402
import numpy as np  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import reverse  # noqa: E402
from django.utils import timezone  # noqa: E402

from agents.wire.names import SIGNALS  # noqa: E402
from console.accounts.models import User  # noqa: E402
from console.history import blocks, kept, rolling, rollup, rows, writing  # noqa: E402
from console.history.blocks import Raw, Rolled  # noqa: E402
from console.history.models import Kind, RolledUp  # noqa: E402
from console.history.rows import Rows  # noqa: E402
from console.history.tiers import DAY_S, HOUR_S, MINUTE_S, ONE, QUARTER, RAW, TEN  # noqa: E402
from console.inventory.models import Gpu, Node, Pool  # noqa: E402
from console.telemetry.latest import COLUMN, COLUMNS  # noqa: E402
from console.workloads.models import OnlineInstance, OnlineService, Team  # noqa: E402

CARD: Final = 80 << 30
GPUS_A_NODE: Final = 8
POOL_GPUS: Final = 1_000
SERVICE_GPUS: Final = 50
# Nodes whose hour is made up; the others repeat it.
MADE: Final = 8
FLEET: Final = 20_000
# Of those that are kept the last is still in minutes.
RAW_HOURS: Final = RAW.kept_s // HOUR_S
FOOTPRINT: Final = {"sm_percent": 30.0, "gpu_util_percent": 60.0, "memory_bytes": 20 << 30}
# Signals and what else is kept: from, to, how far in a second (one in three is further), and how
# often at all.
WALKS: Final = {
    "gpu_util": (20, 100, 2.0, 0.9), "sm_activity": (10, 95, 2.0, 0.9),
    "sm_occupancy": (10, 60, 1.5, 0.9), "memory_bandwidth": (5, 80, 2.0, 0.9),
    "sm_clock": (1_200, 1_980, 15.0, 0.5), "memory": (0.2 * CARD, 0.9 * CARD, 2e8, 0.3),
    "temperature": (40, 80, 0.5, 0.5), "power": (100, 690, 6.0, 0.9),
    "sm_online_percent": (5, 60, 2.0, 0.9), "sm_offline_percent": (5, 50, 2.0, 0.9),
    "duty_percent": (60, 100, 1.0, 0.1), "headroom_percent": (5, 90, 2.0, 0.9),
    "online_memory_bytes": (0.2 * CARD, 0.5 * CARD, 1e8, 0.2),
    "offline_memory_bytes": (0.1 * CARD, 0.4 * CARD, 1e8, 0.2),
}  # fmt: skip
# As logarithms.
RATES: Final = {
    "pcie_rx": (10, 22, 0.2, 0.9), "online_p99": (2, 4, 0.05, 0.9), "online_qps": (3, 7, 0.04, 0.9),
}  # fmt: skip
FIXED: Final = {"xid": 0, "online_processes": 1, "offline_processes": 1}
# Of the worst of a second so many differ from its last value, by a few percent.
WORSE: Final = 0.5


def main() -> None:
    gpus, days, asks = (int(word) for word in sys.argv[1:4])
    call_command("migrate", verbosity=0)
    nodes = fleet(gpus)
    end = int(time.time()) // HOUR_S * HOUR_S
    raw = made_up(MADE * GPUS_A_NODE, HOUR_S)
    packed, fresh = weighed(nodes, raw, end)
    figures: dict[str, Any] = {
        "history_gpus": gpus,
        "bytes_per_gpu_second": (packed * (RAW_HOURS - 1) + fresh) / RAW_HOURS,
        "bytes_per_gpu_second_packed": packed,
        "bytes_per_gpu_second_fresh": fresh,
        "signals_changing_ratio": float((np.diff(raw.last[: len(SIGNALS)], axis=2) != 0).mean()),
    }
    began = time.monotonic()
    copy(raw_minutes(nodes, raw, end - HOUR_S))
    copy(rolled_days(owners(nodes), raw, end - days * DAY_S, end - HOUR_S))
    for tier in (TEN, ONE, QUARTER):
        RolledUp.objects.create(tier_s=tier.period_s, start=tier.start(end - HOUR_S))
    writer = written(nodes, raw, end) / MINUTE_S + rolled_up(end) / HOUR_S
    figures["history_writer_core_ratio"] = writer * FLEET / gpus
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE history_block")
    figures |= {"seeded_s": time.monotonic() - began, "history_bytes": size(), **asked(end, asks)}
    print(json.dumps(figures))


def fleet(gpus: int) -> Sequence[tuple[int, tuple[int, ...]]]:
    """Each node with its GPUs."""
    team = Team.objects.create(name="bench")
    now, found = timezone.now(), []
    pools = [Pool.objects.create(name=f"pool-{at}") for at in range(-(-gpus // POOL_GPUS))]
    for number in range(gpus // GPUS_A_NODE):
        pool = pools[number * GPUS_A_NODE // POOL_GPUS]
        node = Node.objects.create(
            name=f"n-{number}", pool=pool, token_sha256=f"{number:064}", state_since=now
        )
        cards = [_card(node, slot) for slot in range(GPUS_A_NODE)]
        made = Gpu.objects.bulk_create(cards)
        found.append((node.pk, tuple(gpu.pk for gpu in made)))
    _services(team, pools[0])
    return found


def _card(node: Node, slot: int) -> Gpu:
    return Gpu(
        node=node, index=slot, uuid=f"GPU-{node.pk}-{slot}", model="A100", memory_bytes=CARD,
        power_limit_w=400.0, state_since=node.state_since,
    )  # fmt: skip


def _services(team: Team, pool: Pool) -> None:
    cards = list(Gpu.objects.order_by("pk"))
    for at in range(0, len(cards), SERVICE_GPUS):
        service = OnlineService.objects.create(
            name=f"service-{at}", team=team, pool=pool, **FOOTPRINT
        )
        instances = [OnlineInstance(service=service, gpu=gpu) for gpu in cards[at:][:SERVICE_GPUS]]
        OnlineInstance.objects.bulk_create(instances)


def made_up(gpus: int, seconds: int) -> Raw:
    rng = np.random.default_rng(7)
    values = np.full((gpus * seconds, len(COLUMNS)), np.nan, np.float32)

    def walk(low: float, high: float, far: float, often: float) -> Any:
        moves = rng.normal(0, far, (gpus, seconds)) * (rng.random((gpus, seconds)) < often)
        place = rng.uniform(low, high, (gpus, 1)) + moves.cumsum(axis=1)
        there = (place - low) % (2 * (high - low))  # it turns back at either end
        return (low + np.minimum(there, 2 * (high - low) - there)).reshape(-1)

    for name, how in WALKS.items():
        values[:, COLUMN[name]] = walk(*how)
    for name, how in RATES.items():
        values[:, COLUMN[name]] = np.exp(walk(*how))
    for name, value in FIXED.items():
        values[:, COLUMN[name]] = value
    state, by_receipt = np.ones(len(values), np.uint8), np.zeros(len(values), np.bool_)
    last = kept.encode(kept.taken(values, state, by_receipt))
    worse = 1 + np.abs(rng.normal(0, 0.03, (len(values), kept.WORST)))
    worse[rng.random(worse.shape) > WORSE] = 1
    worst = kept.encode(values[:, : kept.WORST] * worse, kept.NAMES[: kept.WORST])
    one = Rows(np.repeat(np.arange(gpus), seconds), np.tile(np.arange(seconds), gpus), last, worst)
    return rolling.raw_block(one, 0, seconds)


Row = tuple[int, int, int, int, int, bytes]


def weighed(
    nodes: Sequence[tuple[int, tuple[int, ...]]], raw: Raw, end: int
) -> tuple[float, float]:
    """Bytes of a GPU-second on disk, with all that PostgreSQL adds: in hours, and in minutes."""
    sizes = []
    for made in (raw_hour(nodes, raw, end - 2 * HOUR_S), raw_minutes(nodes, raw, end - HOUR_S)):
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE history_block")
        empty = size()
        copy(made)
        sizes.append((size() - empty) / (len(nodes) * GPUS_A_NODE * HOUR_S))
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE history_block")
    return sizes[0], sizes[1]


def raw_hour(nodes: Sequence[tuple[int, tuple[int, ...]]], raw: Raw, start: int) -> Iterator[Row]:
    packed = [blocks.pack_hour(part) for part in _of_nodes(raw)]
    for at, (node, gpus) in enumerate(nodes):
        yield Kind.NODE, node, RAW.period_s, start, 0, _named(packed[at % MADE], gpus)


def raw_minutes(
    nodes: Sequence[tuple[int, tuple[int, ...]]], raw: Raw, start: int
) -> Iterator[Row]:
    for minute in range(0, HOUR_S, MINUTE_S):
        packed = [blocks.pack_raw(_minute(part, minute)) for part in _of_nodes(raw)]
        for at, (node, gpus) in enumerate(nodes):
            data = _named(packed[at % MADE], gpus)
            yield Kind.NODE, node, RAW.period_s, start + minute, 1, data


def _minute(raw: Raw, at: int) -> Raw:
    span = slice(at, at + MINUTE_S)
    return Raw(raw.gpus, raw.last[:, :, span], raw.worst[:, :, span])


def _of_nodes(raw: Raw) -> Iterator[Raw]:
    for at in range(0, MADE * GPUS_A_NODE, GPUS_A_NODE):
        here = slice(at, at + GPUS_A_NODE)
        yield Raw(raw.gpus[here], raw.last[:, here], raw.worst[:, here])


def owners(nodes: Sequence[tuple[int, tuple[int, ...]]]) -> list[tuple[Kind, int, tuple[int, ...]]]:
    """Whatever has blocks, and what they are of."""
    groups = {Kind.POOL: Pool.objects, Kind.SERVICE: OnlineService.objects}
    return [(Kind.NODE, node, gpus) for node, gpus in nodes] + [
        (kind, pk, (pk,)) for kind, of in groups.items() for pk in of.values_list("pk", flat=True)
    ]


def rolled_days(
    of: Sequence[tuple[Kind, int, tuple[int, ...]]], raw: Raw, start: int, end: int
) -> Iterator[Row]:
    """Up to `end`; the last day is not over, so it is in no quarters yet."""
    fine = [rolling.together(rolling.as_rolled(part), TEN.period_s) for part in _of_nodes(raw)]
    for tier, factor in ((TEN, 1), (ONE, 6), (QUARTER, 90)):
        hours = [rolling.together(one, factor) for one in fine]
        spans = [_repeated(one, tier.block_s // HOUR_S, tier.period_s) for one in hours]
        whole = [blocks.pack_rolled(one) for one in spans]
        lone = blocks.pack_rolled(rolling.group(spans[0], 0, np.arange(GPUS_A_NODE)))
        for begins in range(tier.start(start), tier.start(end), tier.block_s):
            for at, (kind, owner, members) in enumerate(of):
                data = _named(whole[at % MADE] if kind is Kind.NODE else lone, members)
                yield kind, owner, tier.period_s, begins, 0, data


def _repeated(hour: Rolled, times: int, period_s: int) -> Rolled:
    parts = [(at * HOUR_S, hour) for at in range(times)]
    return rolling.joined(parts, 0, times * HOUR_S // period_s, period_s, rolling.better)


def _named(data: bytes, members: tuple[int, ...]) -> bytes:
    """The same block of other members."""
    kind, _, *rest = msgspec.msgpack.decode(data)
    return msgspec.msgpack.encode([kind, members, *rest])


def copy(made: Iterator[Row]) -> None:
    names = "kind, owner, tier_s, start, epoch, data"
    with (
        connection.cursor() as cursor,
        cursor.cursor.copy(f"COPY history_block ({names}) FROM STDIN (FORMAT BINARY)") as into,
    ):
        into.set_types(["int2", "int8", "int2", "int8", "int8", "bytea"])
        for row in made:
            into.write_row(row)


def size() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_total_relation_size('history_block')")
        return int(cursor.fetchone()[0])


def written(nodes: Sequence[tuple[int, tuple[int, ...]]], raw: Raw, start: int) -> float:
    """CPU seconds to write one minute of all GPUs, from batches as they come out of Redis."""
    gpus = [gpu for _, some in nodes for gpu in some]
    batches = []
    for second in range(0, MINUTE_S, 10):
        like = np.tile(np.arange(len(raw.gpus)), -(-len(gpus) // len(raw.gpus)))[: len(gpus)]
        last, worst = (
            raw.last[:, like, second : second + 10],
            raw.worst[:, like, second : second + 10],
        )
        batches.append(
            rows.pack(
                Rows(
                    np.repeat(np.array(gpus), 10),
                    np.tile(np.arange(start + second, start + second + 10), len(gpus)),
                    last.reshape(len(kept.NAMES), -1).T,
                    worst.reshape(kept.WORST, -1).T,
                )
            )
        )

    def store() -> None:
        with writing.turn() as epoch:
            writing.store(rows.joined([rows.unpack(one) for one in batches]), epoch)

    return _cpu(store)


def rolled_up(end: int) -> float:
    """CPU seconds to roll up the raw hour: all nodes, pools and services, both tiers."""
    now = timezone.datetime.fromtimestamp(
        end + rollup.SETTLED_S + 1, timezone.get_current_timezone()
    )
    took = 0.0
    while RolledUp.objects.filter(tier_s=ONE.period_s, start__lt=end).exists():
        took += _cpu(lambda: rollup.roll(now, lambda until: False))
    return took


def _cpu(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def asked(end: int, asks: int) -> dict[str, float]:
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(User.objects.create_superuser("bench", "bench@example.test", "bench-bench"))
    rng = random.Random(3)
    gpus = list(Gpu.objects.values_list("pk", flat=True))
    pools = list(Pool.objects.values_list("pk", flat=True))
    services = list(OnlineService.objects.values_list("pk", flat=True))
    figures: dict[str, float] = {}
    for name, scope, owners, span_s in (
        ("gpu_10min", "gpu", gpus, 600), ("gpu_24h", "gpu", gpus, DAY_S),
        ("gpu_7d", "gpu", gpus, 7 * DAY_S), ("pool_24h", "pool", pools, DAY_S),
        ("service_24h", "service", services, DAY_S),
    ):  # fmt: skip
        asking: dict[str, Any] = {"names": ",".join(signal.value for signal in SIGNALS)}
        asking |= {"since": end - span_s, "until": end}
        took = sorted(
            _answered(client, asking | {scope: rng.choice(owners)}) for _ in range(asks + 5)
        )[:-1]  # the first of all warms up
        figures[f"chart_{name}_ms"] = took[int(len(took) * 0.95)]
        figures[f"chart_{name}_p50_ms"] = took[len(took) // 2]
    return figures


def _answered(client: Client, asking: dict[str, Any]) -> float:
    began = time.perf_counter()
    answer = client.get(reverse("api_history"), asking)
    took = (time.perf_counter() - began) * 1_000
    assert answer.status_code == 200, answer.content
    assert any(value is not None for value in answer.json()["series"]["sm_activity"]["mean"])
    return took


if __name__ == "__main__":
    main()
