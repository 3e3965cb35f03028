"""One case for each alert: series that must make it fire, and series that must not.

Values are in promtool's notation, one a minute.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

MINUTES: Final = 90

Series = dict[str, str]


@dataclass(frozen=True)
class Case:
    """`labels` are those of the alert, beside its severity."""

    fires: Series
    quiet: Series
    labels: dict[str, str] = field(default_factory=dict)

    def tests(self, rule: dict[str, Any]) -> list[dict[str, Any]]:
        alert, severity = rule["alert"], rule["labels"]["severity"]
        expected = {"exp_labels": {"severity": severity, **self.labels}}
        return [_test(alert, self.fires, [expected]), _test(alert, self.quiet, [])]


def _test(alert: str, series: Series, expected: list[dict[str, Any]]) -> dict[str, Any]:
    """Only labels are compared: the texts would only be said twice."""
    given = [{"series": name, "values": values} for name, values in series.items()]
    query = f'ALERTS{{alertname="{alert}",alertstate="firing"}}'
    samples = [
        {
            "labels": _written("ALERTS", {"alertname": alert, "alertstate": "firing", **labels}),
            "value": 1,
        }
        for labels in (one["exp_labels"] for one in expected)
    ]
    return {
        "interval": "1m",
        "input_series": given,
        "promql_expr_test": [{"expr": query, "eval_time": f"{MINUTES}m", "exp_samples": samples}],
    }


def _written(name: str, labels: dict[str, str]) -> str:
    inner = ", ".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{inner}}}"


def always(value: float) -> str:
    return f"{value}x{MINUTES}"


def rising(step: float) -> str:
    return f"0+{step}x{MINUTES}"


POOL = {"pool": "web"}
NODE = {"node": "node-07", "pool": "web"}
P99 = 'muxflow_service_p99_{}_seconds{{service="search",pool="web",beside="{}"}}'.format
SLO = 'muxflow_service_slo_p99_seconds{service="search",pool="web"}'
TICKS = 'muxflow_web_{}_total{{instance="web:8000"}}'.format
PAGE = "muxflow_fleet_rendered_timestamp_seconds"
ROUND = 'muxflow_round_last_timestamp_seconds{kind="enforce",state="DONE"}'
LOST = "muxflow_pool_lost_work_seconds_total{pool='web'}"
DONE = "muxflow_pool_equivalent_gpu_seconds_total{pool='web'}"
SHARING = "muxflow_pool_gpus_sharing{pool='web'}"
OVERLOADS = "muxflow_evictions_total{pool='web',origin='overload'}"
MOVES = "muxflow_evictions_total{pool='web',origin='move'}"


def above(name: str, limit: float, labels: dict[str, str], **more: str) -> Case:
    """A gauge that is over its limit, or at it; with labels that the alert does not keep."""
    series = _written(name, labels | more)
    return Case({series: always(limit + 1)}, {series: always(limit)}, labels | more)


def counted(name: str, step: float, labels: dict[str, str], **more: str) -> Case:
    """A counter that rises by `step` a minute, or stands still; `more` is summed away."""
    series = _written(name, labels | more)
    return Case({series: rising(step)}, {series: always(5)}, labels)


CASES: Final = {
    "MuxFlowFleetPageMissing": Case({}, {PAGE: "0+60x90"}),
    "MuxFlowFleetPageOld": Case({PAGE: "-60+60x90"}, {PAGE: "0+60x90"}),
    "MuxFlowTargetDown": Case(
        {'up{job="muxflow-web",instance="web:8000"}': always(0)},
        {'up{job="muxflow-web",instance="web:8000"}': always(1), 'up{job="other"}': always(0)},
        {"job": "muxflow-web", "instance": "web:8000"},
    ),
    "MuxFlowGpusSilent": Case(
        {f'muxflow_gpu_up{{gpu_uuid="{n}",pool="web"}}': always(min(n, 1)) for n in range(10)},
        {f'muxflow_gpu_up{{gpu_uuid="{n}",pool="web"}}': always(1) for n in range(10)},
        POOL,
    ),
    "MuxFlowNodeLost": Case(
        {_written("muxflow_node_state", NODE | {"state": "LOST"}): always(1)},
        {_written("muxflow_node_state", NODE | {"state": "STALE"}): always(1)},
        NODE | {"state": "LOST"},
    ),
    "MuxFlowServiceOverSlo": Case(
        {P99("worst", "offline"): always(0.05), SLO: always(0.04)},
        {P99("worst", "nothing"): always(0.05), SLO: always(0.04)},
        {"service": "search", "pool": "web", "beside": "offline"},
    ),
    "MuxFlowServiceHarmed": Case(
        {P99("median", "offline"): always(0.03), P99("median", "nothing"): always(0.02)},
        {P99("median", "offline"): always(0.02), P99("median", "nothing"): always(0.03)},
        {"service": "search", "pool": "web"},
    ),
    "MuxFlowEvictionStuck": above("muxflow_open_evictions", 0, POOL, state="STUCK"),
    "MuxFlowEvictionsWait": above("muxflow_open_evictions", 0, POOL, state="PROPOSED"),
    "MuxFlowManyEmergencies": Case(
        {OVERLOADS: rising(1), SHARING: always(100)},
        {MOVES: rising(1), OVERLOADS: rising(0.1), SHARING: always(100)},
        POOL,
    ),
    "MuxFlowWorkLost": Case(
        {LOST: rising(20), DONE: rising(60)}, {LOST: rising(1), DONE: rising(60)}, POOL
    ),
    "MuxFlowGpuFault": counted("muxflow_gpu_faults_total", 1, POOL),
    "MuxFlowGpuQuarantined": above("muxflow_pool_gpus", 0, POOL, state="QUARANTINED"),
    "MuxFlowNodeBehind": above("muxflow_node_generations_behind", 0, NODE),
    "MuxFlowRoundsStopped": Case({ROUND: always(60)}, {ROUND: "0+60x90"}),
    "MuxFlowQueueLong": above("muxflow_queue_messages", 100, {"queue": "matching"}),
    "MuxFlowTaskFails": counted(
        "muxflow_task_failures_total", 1, {"task": "a.b", "cause": "redis"}, instance="x"
    ),
    "MuxFlowLoopFails": counted(
        "muxflow_web_loop_failures_total", 2, {"instance": "x", "loop": "bells", "cause": "redis"}
    ),
    "MuxFlowOrdersOld": above("muxflow_web_orders_age_seconds", 30, {"instance": "web:8000"}),
    "MuxFlowMapLate": Case(
        {TICKS("late_ticks"): rising(12), TICKS("ticks"): rising(60)},
        {TICKS("late_ticks"): rising(1), TICKS("ticks"): rising(60)},
        {"instance": "web:8000"},
    ),
    "MuxFlowRefusing": counted(
        "muxflow_web_refused_total", 120, {"reason": "too large"}, instance="x"
    ),
    "MuxFlowHistoryDropped": counted(
        "muxflow_web_history_dropped_samples_total", 5, {"instance": "web:8000"}
    ),
    "MuxFlowAgentUnlinked": Case(
        {'muxflow_agent_link_up{node="node-07"}': always(0)},
        {'muxflow_agent_link_up{node="node-07"}': always(1)},
        {"node": "node-07"},
    ),
    "MuxFlowCollectorFails": Case(
        {'muxflow_agent_collector_success{node="node-07",collector="nvml"}': always(0)},
        {'muxflow_agent_collector_success{node="node-07",collector="nvml"}': always(1)},
        {"node": "node-07", "collector": "nvml"},
    ),
    "MuxFlowEventsDropped": counted(
        "muxflow_agent_spool_dropped_events_total", 1, {"node": "node-07"}
    ),
}
