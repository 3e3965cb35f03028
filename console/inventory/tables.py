"""The list of nodes."""

from __future__ import annotations

import django_tables2 as tables
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.inventory.models import Node
from console.lists import NUMBER, WIDE, WIDE_NUMBER, WIDE_QUIET, Table
from console.templatetags import muxflow


class NodeTable(Table):
    name = tables.Column(verbose_name="Node")
    state = tables.Column(verbose_name="Agent", order_by=("state", "name"))
    pool = tables.Column(verbose_name="Pool", accessor="pool__name", attrs=WIDE)
    gpu_count = tables.Column(verbose_name="GPUs", attrs=NUMBER)
    sharing_count = tables.Column(verbose_name="Sharing", attrs=WIDE_NUMBER)
    guest_count = tables.Column(verbose_name="Jobs", attrs=NUMBER)
    generation = tables.Column(verbose_name="Desired state", attrs=WIDE, orderable=False)
    agent_version = tables.Column(verbose_name="Version", attrs=WIDE_QUIET)
    last_seen_at = tables.Column(verbose_name="Last heard", attrs=WIDE_NUMBER)

    class Meta:
        order_by = "name"
        empty_text = "No node matches. Clear the filters to see all."

    def render_name(self, record: Node) -> SafeString:
        link = format_html('<a href="{}">{}</a>', reverse("node", args=[record.name]), record.name)
        return format_html("{} {}", link, flags(record))

    def render_state(self, record: Node) -> SafeString:
        return muxflow.state(record.state, "node")

    def render_generation(self, record: Node) -> SafeString:
        return generation(record)

    def render_agent_version(self, value: str) -> str:
        return value or "none yet"

    def render_last_seen_at(self, record: Node) -> SafeString:
        return muxflow.ago(record.last_seen_at)


def flags(node: Node) -> SafeString:
    """What is special about a node, as small tags."""
    held = (
        ("DRAINING", node.draining),
        ("CORDONED", node.cordoned and not node.draining),
        ("IMPORTED", node.source == Node.Source.IMPORTED),
    )
    marks = ((muxflow.state(name, "node", tag=True),) for name, holds in held if holds)
    return format_html_join(" ", "{}", marks)


def generation(node: Node) -> SafeString:
    """Whether the node does what is wanted of it."""
    if node.refused:
        return muxflow.tone("overloaded", "refused", "triangle")
    if node.observed_generation == node.generation:
        return muxflow.tone("healthy", "applied", "tick")
    if not node.observed_generation:
        return format_html('<span class="none">{}</span>', "not reported yet")
    behind = node.generation - node.observed_generation
    return muxflow.tone("cooling", f"{behind} behind" if behind > 0 else "ahead", "hourglass")
