from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.template import Context, Template, TemplateSyntaxError
from django.test import RequestFactory

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)


def render(source: str, **context) -> str:
    return Template(source).render(Context(context))


def test_a_state_carries_glyph_word_and_tone():
    html = render('{% state "OVERLIMIT" %}')
    assert "is-overloaded" in html
    assert "<path" in html
    assert "Overloaded" in html


def test_a_state_may_say_more():
    html = render('{% state "UNHEALTHY" word="Busy: no new offline work" tag=True %}')
    assert "Busy: no new offline work" in html
    assert "st tag" in html


@pytest.mark.parametrize(
    "tag", ["quantity v", "size v", "percent v", "share v", "signed v", "estimate v", "figure v"]
)
def test_a_missing_value_reads_no_data(tag):
    assert "no data" in render("{% " + tag + " %}", v=None)


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        (0.21, "gains ≈\u00a00.21\u00a0GPU"), (-0.19, "costs ≈\u00a00.19\u00a0GPU"),
        (-0.001, "gains next to nothing"), (None, "no data"),
    ],
)  # fmt: skip
def test_a_move_gains_or_costs_and_is_never_a_negative_gain(gpus, words):
    assert words in render("{% gain v %}", v=gpus)


def test_zero_is_shown_as_zero():
    assert render('{% quantity v "ms" %}', v=0) == "0\u00a0ms"


def test_an_estimate_says_so():
    assert render("{% estimate_span v %}", v=840) == "≈\u00a014\u00a0min"


def test_a_time_is_relative_with_the_exact_one_on_hover(time_machine):
    time_machine.move_to(NOW, tick=False)
    html = render("{% ago at %}", at=NOW - timedelta(minutes=6))
    assert "6\u00a0min ago" in html
    assert 'title="Tue 1 Sep 2026 11:54:00 UTC"' in html


def test_a_deadline_counts_down_to_nothing(time_machine):
    time_machine.move_to(NOW, tick=False)
    assert "3:10" in render("{% until at %}", at=NOW + timedelta(seconds=190))
    assert "0:00" in render("{% until at %}", at=NOW - timedelta(seconds=5))


def test_names_are_escaped():
    assert "<b>" not in render('{% tone "busy" word %}', word="<b>")


def test_an_icon_that_is_not_listed_is_an_error():
    with pytest.raises(TemplateSyntaxError, match="rocket"):
        render('{% icon "rocket" %}')


def test_a_query_keeps_the_rest_of_the_view():
    request = RequestFactory().get("/?q=a&page=3&sort=name")
    assert render("{% query q=None sort='age' %}", request=request) == "?page=3&amp;sort=age"


def test_a_changed_view_starts_at_its_first_page():
    request = RequestFactory().get("/?window=1h&page=3")
    assert render("{% query_of 'window' '24h' %}", request=request) == "?window=24h"


def test_the_state_bar_keeps_a_rare_state_visible():
    html = render("{% statebar rows %}", rows=[("HEALTHY", 4000), ("GUARDED", 1), ("INIT", 0)])
    assert 'data-state="GUARDED" x="994.0" width="4.0"' in html
    assert 'data-state="INIT" x="1000.0" width="0.0"' in html


def test_the_state_bar_of_nothing_is_empty():
    assert 'width="0.0"' in render("{% statebar rows %}", rows=[("HEALTHY", 0)])


def test_a_meter_colours_only_what_is_over():
    html = render("{% meter 48 80 slo=40 %}")
    assert 'class="used" x="0%" y="4" width="50.00%"' in html
    assert 'class="over" x="50.00%" y="4" width="10.00%"' in html


def test_a_meter_without_a_value_is_empty():
    assert "used" not in render("{% meter v 80 limit=60 %}", v=None)


def test_stages_tell_reached_skipped_and_running_apart():
    html = render(
        "{% stages reached took now %}",
        reached=["ACCEPTED", "GATED"],
        took={"ACCEPTED": "0.2 s"},
        now="QUIESCED",
    )
    classes = [part.split('"')[0] for part in html.split('<li class="')[1:]]
    assert classes == ["done", "skipped", "skipped", "done", "now", "", "", ""]
    assert "0.2 s" in html


@pytest.mark.parametrize(("name", "text"), [("M. Ortega", "MO"), ("alma", "A"), ("", "?")])
def test_initials(name, text):
    assert render("{{ name|initials }}", name=name) == text
