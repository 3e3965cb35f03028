"""The series of each node. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from console.metrics.exposition import Family
from console.metrics.fleet.cards import Cards
from console.metrics.fleet.families import gauge, info


def families(cards: Cards) -> Iterator[Family]:
    named = [({"node": node.name, "pool": node.pool}, node) for node in cards.facts.nodes]
    told = [
        pairs | {"source": node.source, "agent_version": node.agent_version}
        for pairs, node in named
    ]
    yield info("node_info", "Always 1.", told)
    words = "1 for the state that a node is in; its other states have no line."
    yield gauge("node_state", words, [(p | {"state": node.state}, 1) for p, node in named])
    yield from _gpus(cards)
    words = "1 while a person keeps new offline work away."
    yield gauge("node_cordoned", words, [(pairs, node.cordoned) for pairs, node in named])
    words = "1 while it is emptied by a person's wish."
    yield gauge("node_draining", words, [(pairs, node.draining) for pairs, node in named])
    words = "Orders that the node has not made true yet; 0: it does what is wanted."
    yield gauge("node_generations_behind", words, [(p, node.behind) for p, node in named])
    words = "When the console last heard of the node, in Unix time."
    seen = [(pairs, node.last_seen_at) for pairs, node in named]
    yield gauge("node_last_seen_timestamp_seconds", words, seen)


def _gpus(cards: Cards) -> Iterator[Family]:
    here, up = Counter[str](), Counter[str]()
    for gpu, fresh in zip(cards.gpus, cards.fresh.tolist(), strict=True):
        here[gpu.node] += 1
        up[gpu.node] += fresh
    named = [({"node": node.name, "pool": node.pool}, node.name) for node in cards.facts.nodes]
    yield gauge("node_gpus", "GPUs of the node.", [(pairs, here[name]) for pairs, name in named])
    words = "GPUs of the node with a fresh sample."
    yield gauge("node_gpus_up", words, [(pairs, up[name]) for pairs, name in named])
