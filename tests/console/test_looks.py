from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings

from agents.wire.names import GPU_STATES, PHASES, SHARING_MODES, Origin, PlacementState
from console import looks
from console.evictions.models import Eviction
from console.faults import story
from console.inventory.models import Node
from console.runs.models import Run
from console.workloads.models import OfflineJob

GLYPHS_JS = Path(settings.BASE_DIR) / "static" / "js" / "glyphs.js"

KINDS = {
    "gpu": GPU_STATES,
    "placement": PlacementState,
    "job": OfflineJob.State,
    "eviction": Eviction.State,
    "node": Node.State,
    "mode": SHARING_MODES,
    "run": Run.State,
    "origin": Origin,
    "fault": story.State,
    "side": story.Side,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_state_has_a_word_and_a_glyph(kind):
    for name in KINDS[kind]:
        assert looks.look(name, kind).glyph in looks.GLYPHS


def test_every_phase_has_a_word():
    assert list(looks.PHASES) == list(PHASES)


def test_two_gpu_states_never_share_a_glyph():
    glyphs = [look.glyph for look in looks.GPU.values()]
    assert len(set(glyphs)) == len(glyphs)


def test_every_tone_is_in_the_style_sheet():
    tokens = (Path(settings.BASE_DIR) / "static" / "css" / "tokens.css").read_text()
    tones = {look.tone for table in looks.LOOKS.values() for look in table.values()}
    assert {tone for tone in tones if f".is-{tone} " not in tokens} == set()


def test_an_unknown_state_is_an_error_that_names_it():
    with pytest.raises(KeyError, match="ASLEEP"):
        looks.look("ASLEEP")


def test_the_canvas_draws_the_same_glyphs():
    drawn = dict(re.findall(r'^  (\w+): "(M[^"]+)"', GLYPHS_JS.read_text(), re.MULTILINE))
    assert drawn == looks.GLYPHS


def test_the_canvas_uses_the_same_words():
    row = r'^  (\w+): \{ word: "([^"]+)", tone: "(\w+)", glyph: "(\w+)" \}'
    rows = re.findall(row, GLYPHS_JS.read_text(), re.MULTILINE)
    assert {name: looks.Look(*rest) for name, *rest in rows} == looks.GPU
