"""The pods of this node, for the collectors: whether they are known, and whose a process is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from agents.collectors.base import Findings, Unavailable
from agents.collectors.cgroups import Container
from agents.config import Config
from agents.kubernetes import address, api
from agents.kubernetes.api import Access, Api
from agents.kubernetes.roster import Roster
from agents.kubernetes.watch import PodWatch, Question, listed

# Longer than a request may take: a list that is under way is waited for, so that the duration of
# a look says how long it took.
PATIENCE_S: Final = api.DEADLINE_S


class KubernetesSource:
    """It finds no values: it names processes. Its own lane, so that whoever waits for the API
    waits alone."""

    name = "kubernetes"
    period_s = 1.0
    max_age_s = 3.0
    prompt = False
    is_idle = False

    def __init__(self, watch: PodWatch) -> None:
        self._watch = watch
        self._started = False

    def look(self, now: float) -> Findings:
        if not self._started:
            self._watch.start()
            self._started = True
        if not self._watch.settled.wait(PATIENCE_S):
            raise Unavailable(f"the Kubernetes API has not answered for {PATIENCE_S:g} s")
        if self._watch.trouble:
            raise Unavailable(self._watch.trouble)
        return {}

    def close(self) -> None:
        self._watch.close()

    def workload(self, container: Container | None) -> str:
        """The pod in words, "" for what is none of this node's online pods. Never waits."""
        pod = self._watch.roster.of(container)
        return "" if pod is None else str(pod)


def source(config: Config, environment: Mapping[str, str] = os.environ) -> KubernetesSource:
    return KubernetesSource(PodWatch(Api(lambda: access(config, environment)), question(config)))


def look_once(config: Config, environment: Mapping[str, str] = os.environ) -> Roster:
    """One list and no watch. Raises Unavailable, Nonsense."""
    asked = Api(lambda: access(config, environment))
    try:
        return listed(asked, question(config))[0]
    finally:
        asked.close()


def access(config: Config, environment: Mapping[str, str]) -> Access:
    """Plain HTTP needs no token and knows no authority. Raises Unavailable."""
    url = config.kubernetes
    if url == address.IN_CLUSTER:
        url = address.in_cluster(environment)
        if not url:
            raise Unavailable(
                "this is no pod (KUBERNETES_SERVICE_HOST is not set): give --kubernetes an address"
            )
    if not address.is_safe(url):
        raise Unavailable(f"{url} is not an address that a token may be sent to: give https://")
    if url.startswith("http://"):
        return Access(url, config.kubernetes_token if config.kubernetes_token.exists() else None)
    return Access(url, config.kubernetes_token, config.kubernetes_ca)


def question(config: Config) -> Question:
    return Question(
        config.kubernetes_node or config.node or "",
        config.kubernetes_selector,
        config.kubernetes_service_label,
    )
