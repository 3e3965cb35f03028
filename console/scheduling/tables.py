"""The lists of rounds and of their decisions."""

from __future__ import annotations

import django_tables2 as tables
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console import figures
from console.lists import NO_DATA, NUMBER, WIDE, WIDE_NUMBER, Table
from console.scheduling import queries
from console.scheduling.models import Decision, Round
from console.scheduling.plan import WORDS, Code
from console.templatetags import muxflow

SENTENCE = {"td": {"class": "sentence"}}


_UNTOLD = (Round.State.SKIPPED, Round.State.RUNNING)


class CountColumn(tables.Column):  # type: ignore[misc]
    """How many; nothing for a round that did not look, or not yet."""

    def render(self, value: int, record: Round) -> str:
        return "" if record.state in _UNTOLD else figures.quantity(value)


class RoundTable(Table):
    pk = tables.Column(verbose_name="Round")
    state = tables.Column(verbose_name="Result", orderable=False)
    started_at = tables.Column(verbose_name="Began", attrs=NUMBER)
    kind = tables.Column(attrs=WIDE)
    gpus = CountColumn(verbose_name="GPUs", attrs=WIDE_NUMBER)
    jobs = CountColumn(attrs=WIDE_NUMBER)
    placed = CountColumn(attrs=NUMBER)
    kept = CountColumn(attrs=WIDE_NUMBER)
    moves = CountColumn(attrs=WIDE_NUMBER)
    waiting = CountColumn(verbose_name="Wait", attrs=NUMBER)
    predicted_gpus = tables.Column(
        verbose_name="Predicted, GPUs", attrs=WIDE_NUMBER, empty_values=()
    )
    more = tables.Column(
        verbose_name="Against the last", accessor="pk", attrs=WIDE_NUMBER, orderable=False
    )
    took = tables.Column(accessor="pk", attrs=WIDE_NUMBER, orderable=False)

    class Meta:
        order_by = "-started_at"
        row_attrs = {"class": lambda record: "faint" if record.state == "SKIPPED" else ""}

    def render_pk(self, record: Round) -> SafeString:
        return format_html('<a href="{}">{}</a>', reverse("round", args=[record.pk]), record.pk)

    def render_state(self, record: Round) -> SafeString:
        if record.state != Round.State.SKIPPED:
            return outcome(record)
        return format_html(
            '{}<br><span class="qq s">{}</span>', outcome(record), record.skipped_why
        )

    def render_started_at(self, record: Round) -> SafeString:
        return muxflow.ago(record.started_at)

    def render_kind(self, record: Round) -> SafeString:
        return muxflow.state(record.kind, "mode")

    def render_predicted_gpus(self, value: float | None, record: Round) -> str | SafeString:
        if value is None:
            return "" if record.state in _UNTOLD else NO_DATA
        return figures.quantity(value, "", 1)

    def render_more(self, record: Round) -> str:
        more = queries.more_gpus(record)
        return "" if more is None else figures.signed(more)

    def render_took(self, record: Round) -> str:
        seconds = queries.took_s(record)
        return "" if seconds is None or record.state in _UNTOLD else figures.span(seconds)


def outcome(round: Round) -> SafeString:
    """How a round ended, in a word: a result without proof is not called optimal."""
    if round.state == Round.State.RUNNING:
        return muxflow.tone("guarded", "Deciding", "arrows")
    if round.state == Round.State.SKIPPED:
        return muxflow.tone("disabled", "Skipped", "dash")
    if round.late:
        return muxflow.tone("busy", "Out of time", "hourglass")
    if round.state == Round.State.FAILED:
        return muxflow.tone("overloaded", "Failed", "triangle")
    if queries.is_optimal(round):
        return muxflow.tone("healthy", "Proven optimal", "tick")
    return muxflow.tone("busy", "Not proven", "half")


class DecisionTable(Table):
    job = tables.Column(accessor="job__name", verbose_name="Job")
    gpu = tables.Column(accessor="gpu__node__name", verbose_name="GPU", order_by=("gpu",))
    sm_share_percent = tables.Column(verbose_name="SM share", attrs=WIDE_NUMBER)
    predicted_throughput = tables.Column(verbose_name="Speed, 90 %", attrs=WIDE_NUMBER)
    predicted_online_slowdown = tables.Column(verbose_name="Online, 90 %", attrs=WIDE_NUMBER)
    price = tables.Column(verbose_name="Price, in worth", attrs=WIDE_NUMBER)
    code = tables.Column(verbose_name="Reason", attrs=WIDE)
    why = tables.Column(verbose_name="Why", orderable=False, attrs=SENTENCE)

    def render_job(self, record: Decision) -> SafeString:
        return format_html('<a href="{}">{}</a>', reverse("job", args=[record.job_id]), record.job)

    def render_gpu(self, record: Decision) -> SafeString:
        here = _gpu_link(record.gpu_id, str(record.gpu))
        if record.from_gpu_id is None:
            return here
        there = _gpu_link(record.from_gpu_id, str(record.from_gpu))
        return format_html('{} <span class="qq">to</span> {}', there, here)

    def render_sm_share_percent(self, value: float) -> str:
        return muxflow.percent(value)

    def render_predicted_throughput(self, value: float, record: Decision) -> SafeString:
        low, high = record.throughput_low, record.throughput_high
        return _with_interval(muxflow.estimate(value * 100, "%"), low, high, 0.0)

    def render_predicted_online_slowdown(self, value: float, record: Decision) -> SafeString:
        text = f"\u2248 {figures.signed((value - 1) * 100, '%', 0)}"
        return _with_interval(text, record.slowdown_low, record.slowdown_high, 1.0)

    def render_price(self, record: Decision) -> str:
        price = queries.price(record)
        return figures.quantity(price.worth if price else None, "", 2)

    def render_why(self, value: str, record: Decision) -> SafeString:
        """With what makes the prediction less sure than usual."""
        if not record.flags:
            return format_html("{}", value)
        said = muxflow.tone("busy", "Out of the range of what was learned", "half")
        return format_html("{} {}: {}.", value, said, ", ".join(record.flags))

    def render_code(self, value: str) -> str:
        return WORDS[Code(value)] if value in set(Code) else value


_OF_PAIRS = ("sm_share_percent", "predicted_throughput", "predicted_online_slowdown", "price")
# What a table of decisions of one kind has nothing to say about.
WITHOUT = {
    "placed": ("code",),
    "kept": ("code",),
    "moves": ("sm_share_percent", "price", "code"),
    "waiting": ("gpu", *_OF_PAIRS),
    "unused": ("job", *_OF_PAIRS),
}


def _with_interval(text: str, low: float | None, high: float | None, zero: float) -> SafeString:
    """The estimate, and under it the ends of its interval in percent above `zero`."""
    if low is None or high is None:
        return format_html("{}", text)
    ends = [figures.quantity((end - zero) * 100) for end in (low, high)]
    return format_html('{}<br><span class="qq xs">{} to {}\u00a0%</span>', text, *ends)


def _gpu_link(gpu_id: int | None, name: str) -> SafeString:
    return format_html('<a class="nw" href="{}">{}</a>', reverse("gpu", args=[gpu_id]), name)
