"""What an expression asks of the metrics: the names and labels it uses, and the labels it gives.

Reads PromQL with the parser of the package `promql-parser`, and follows the labels from the
metrics, whose labels are known, up to the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import promql_parser as promql

# Every scraped series has these; of the fleet, which is scraped once, they are always the same.
SCRAPED = frozenset({"job", "instance"})
# Grafana fills these in before Prometheus sees them.
VARIABLES = {"$__rate_interval": "5m", "$__interval": "1m", "$__range": "1h"}

Labels = frozenset[str]


class Wrong(Exception):
    """What in the expression fits no metric."""


def labels_of(text: str, metrics: Mapping[str, Labels]) -> Labels:
    """The labels of the result. Raises Wrong, and ValueError for what is no PromQL."""
    for variable, value in VARIABLES.items():
        text = text.replace(variable, value)
    return _labels(promql.parse(re.sub(r"\$(\w+)", r"\1", text)), metrics)


def _labels(expr: promql.Expr, metrics: Mapping[str, Labels]) -> Labels:
    match expr:
        case promql.VectorSelector():
            return _selected(expr, metrics)
        case promql.MatrixSelector():
            return _selected(expr.vector_selector, metrics)
        case promql.AggregateExpr():
            return _aggregated(expr, metrics)
        case promql.BinaryExpr():
            return _matched(expr, metrics)
        case promql.Call():
            return _called(expr, metrics)
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            return _labels(expr.expr, metrics)
        case promql.NumberLiteral() | promql.StringLiteral():
            return frozenset()
    raise Wrong(f"nothing is known of {type(expr).__name__}")


def _selected(selector: promql.VectorSelector, metrics: Mapping[str, Labels]) -> Labels:
    if selector.name not in metrics:
        raise Wrong(f"no process shows {selector.name}")
    labels = metrics[selector.name]
    _has(labels, [one.name for one in selector.matchers.matchers], selector)
    return labels


def _aggregated(expr: promql.AggregateExpr, metrics: Mapping[str, Labels]) -> Labels:
    inner = _labels(expr.expr, metrics)
    if expr.modifier is None:
        return inner if str(expr.op) in {"topk", "bottomk"} else frozenset()
    _has(inner, expr.modifier.labels, expr)
    named = frozenset(expr.modifier.labels)
    return named if expr.modifier.type == promql.AggModifierType.By else inner - named


def _matched(expr: promql.BinaryExpr, metrics: Mapping[str, Labels]) -> Labels:
    left, right = _labels(expr.lhs, metrics), _labels(expr.rhs, metrics)
    if _is_scalar(expr.lhs) or _is_scalar(expr.rhs):
        return left | right
    matching = expr.modifier.matching if expr.modifier else None
    named = frozenset(matching.labels) if matching else frozenset[str]()
    if matching and matching.type == promql.LabelModifierType.Include:
        _has(left & right, named, expr)
        kept = named
    elif left - named != right - named:
        raise Wrong(f"{set(left)} never equals {set(right)}: {expr}")
    else:
        kept = left - named
    group = expr.modifier.group_labels if expr.modifier else None
    if group is not None:  # of our own expressions all are group_left
        _has(right, group, expr)
        return left | frozenset(group)
    return left if str(expr.op) in {"and", "or", "unless"} else kept


def _called(expr: promql.Call, metrics: Mapping[str, Labels]) -> Labels:
    inner = frozenset[str]().union(*(_labels(one, metrics) for one in expr.args))
    match expr.func.name:
        case "histogram_quantile":
            _has(inner, ["le"], expr)
            return inner - {"le"}
        case "absent" | "scalar" | "vector" | "time":
            return frozenset()
        case "label_replace":
            return inner | {expr.args[1].val}
    return inner


def _is_scalar(expr: promql.Expr) -> bool:
    match expr:
        case promql.NumberLiteral():
            return True
        case promql.Call():
            return bool(expr.func.return_type == promql.ValueType.Scalar)
        case promql.BinaryExpr():
            return _is_scalar(expr.lhs) and _is_scalar(expr.rhs)
        case promql.ParenExpr() | promql.UnaryExpr():
            return _is_scalar(expr.expr)
    return False


def _has(labels: Labels, wanted: Iterable[str], where: object) -> None:
    missing = set(wanted) - labels
    if missing:
        raise Wrong(f"no label {', '.join(sorted(missing))} in {where}; there are {set(labels)}")
