"""The tags every page is built with. Examples of all of them: /styleguide."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from django import template
from django.http import QueryDict
from django.template import Context
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from agents.wire import names
from console import figures, looks
from console.assets import icons
from console.assets.importmap import import_map

register = template.Library()
T = TypeVar("T")

ALMOST_EQUAL: Final = f"≈{figures.NBSP}"


@register.simple_tag
def state(name: str, kind: str = "gpu", word: str = "", tag: bool = False) -> SafeString:
    """Glyph and word of a state. `word` replaces the usual word; `tag=True` tints the ground."""
    look = looks.look(name, kind)
    return tone(look.tone, word or look.word, look.glyph, tag)


@register.simple_tag
def tone(name: str, word: str, glyph: str = "", tag: bool = False) -> SafeString:
    """Glyph and `word` in a tone (`busy`, `overloaded`, …), for what has no state of its own."""
    mark = _glyph(glyph or _glyph_of_tone(name))
    return format_html(
        '<span class="st{} is-{}">{}{}</span>', " tag" if tag else "", name, mark, word
    )


@register.simple_tag
def glyph(name: str, kind: str = "gpu") -> SafeString:
    """Only the glyph of a state, in its tone; the word must stand beside it."""
    look = looks.look(name, kind)
    return _glyph(look.glyph, f" is-{look.tone}")


@register.simple_tag
def icon(name: str, classes: str = "") -> SafeString:
    """An icon of the sprite, hidden from screen readers: name its button with words.

    Raises TemplateSyntaxError when `console/assets/icons.py` does not list it.
    """
    if name not in icons.ICONS:
        raise template.TemplateSyntaxError(f"{name!r} is not in console/assets/icons.py")
    return format_html(
        '<svg class="{}" aria-hidden="true"><use href="{}#tabler-{}"/></svg>',
        f"i {classes}".strip(),
        static(icons.SPRITE),
        name,
    )


@register.simple_tag
def ago(moment: datetime | None) -> SafeString:
    """`6 min ago`, kept current by the browser; the exact time in UTC on hover."""
    moment = present(moment)
    if moment is None:
        return _none("never")
    past_s = (timezone.now() - moment).total_seconds()
    return _time(moment, "data-ago", figures.age(past_s))


@register.simple_tag
def until(moment: datetime | None) -> SafeString:
    """`3:10`, counted down by the browser."""
    moment = present(moment)
    if moment is None:
        return _none("no deadline")
    left_s = (moment - timezone.now()).total_seconds()
    return _time(moment, "data-until", figures.countdown(left_s))


@register.simple_tag
def moment(value: datetime | None, form: str = "H:i:s") -> SafeString:
    """The clock time in UTC (`10:42:03`), with date and zone on hover."""
    value = present(value)
    if value is None:
        return _none("never")
    pattern = {"H:i:s": "%H:%M:%S", "H:i": "%H:%M", "date": "%a %-d %b %H:%M"}[form]
    return _time(value, "", value.astimezone(UTC).strftime(pattern))


@register.simple_tag
def quantity(value: float | None, unit: str = "", digits: int = 0) -> str:
    """`1,395 MHz`; a missing value reads `no data` and never 0."""
    value = present(value)
    return _none() if value is None else figures.quantity(value, unit, digits)


@register.simple_tag
def size(value_bytes: float | None, digits: int = 1) -> str:
    """`11.8 GiB`."""
    value_bytes = present(value_bytes)
    return _none() if value_bytes is None else figures.size(value_bytes, digits)


@register.simple_tag
def percent(value: float | None, digits: int = 0) -> str:
    """`52 %` from 52."""
    return quantity(value, "%", digits)


@register.simple_tag
def share(value: float | None, digits: int = 0) -> str:
    """`52 %` from 0.52."""
    value = present(value)
    return percent(None if value is None else value * 100, digits)


@register.simple_tag
def signed(value: float | None, unit: str = "", digits: int = 1) -> str:
    """`+18.5 points`."""
    value = present(value)
    return _none() if value is None else figures.signed(value, unit, digits)


@register.simple_tag
def span(seconds: float | None) -> str:
    """`1 h 12 min`."""
    seconds = present(seconds)
    return _none() if seconds is None else figures.span(seconds)


@register.simple_tag
def seconds(value: float | None, digits: int = 1) -> str:
    """`73.4 s`: for steps that are compared, where `span` would change its unit."""
    return quantity(value, "s", digits)


@register.simple_tag
def gain(gpus: float | None) -> str:
    """`gains ≈ 0.21 GPU`; `costs ≈ 0.19 GPU` of a move that is there for others."""
    gpus = present(gpus)
    if gpus is None:
        return _none()
    if abs(gpus) < 0.005:
        return "gains next to nothing"
    word = "gains" if gpus > 0 else "costs"
    return f"{word} {ALMOST_EQUAL}{figures.quantity(abs(gpus), 'GPU', 2)}"


@register.simple_tag
def estimate(value: float | None, unit: str = "", digits: int = 0) -> str:
    """`≈ 14 min`: says that the number is an estimate."""
    value = present(value)
    return _none() if value is None else ALMOST_EQUAL + figures.quantity(value, unit, digits)


@register.simple_tag
def estimate_span(seconds: float | None) -> str:
    """`≈ 14 min` from seconds."""
    seconds = present(seconds)
    return _none() if seconds is None else ALMOST_EQUAL + figures.span(seconds)


@register.simple_tag
def estimate_size(value_bytes: float | None) -> str:
    """`≈ 11.8 GiB` from bytes."""
    value_bytes = present(value_bytes)
    return _none() if value_bytes is None else ALMOST_EQUAL + figures.size(value_bytes)


@register.simple_tag
def figure(value: float | None, unit: str = "", digits: int = 1, live: str = "") -> SafeString:
    """A headline number. `live` names the key of the live summary that updates it in place."""
    value = present(value)
    return format_html(
        '<span class="fig"><span{}>{}</span><span class="u">{}</span></span>',
        format_html(' data-live="{}" data-digits="{}"', live, digits) if live else "",
        _none() if value is None else figures.quantity(value, "", digits),
        "" if value is None and not live else unit,
    )


@register.simple_tag(takes_context=True)
def query(context: Context, **changes: Any) -> str:
    """The page's query string with `changes` made; None or "" drops a key. View state stays."""
    request = context.get("request")
    params = request.GET.copy() if request else QueryDict(mutable=True)
    for key, value in changes.items():
        if value in (None, ""):
            params.pop(key, None)
        else:
            params[key] = str(value)
    return f"?{params.urlencode()}"


@register.simple_tag(takes_context=True)
def query_of(context: Context, key: str, value: Any) -> str:
    """`query` for a key that is itself a variable. A changed view starts at its first page."""
    return query(context, **{key: value, "page": None})


@register.simple_tag(takes_context=True)
def importmap(context: Context) -> SafeString:
    """The import map; must come before any module script."""
    nonce = getattr(context.get("request"), "csp_nonce", "")
    # Our own file names: `<` and `&` cannot occur, and HTML escapes would not be JSON.
    imports = mark_safe(import_map())  # noqa: S308
    return format_html('<script type="importmap" nonce="{}">{}</script>', nonce, imports)


@register.simple_tag
def statebar(rows: Sequence[tuple[str, int]], kind: str = "gpu") -> SafeString:
    """One bar, split by how many there are in each state: `rows` of (state, count).

    Every state that occurs keeps a visible sliver; the exact counts belong in a table beside it.
    """
    total = sum(count for _, count in rows)
    widths = [max(count / total * 1000, 6) if count else 0 for _, count in rows]
    scale = 1000 / sum(widths) if total else 0
    parts, x = [], 0.0
    for (name, _), width in zip(rows, widths, strict=True):
        shown = max(width * scale - 2, 0)
        parts.append((looks.look(name, kind).tone, name, f"{x:.1f}", f"{shown:.1f}"))
        x += width * scale
    return format_html(
        '<svg class="statebar" viewBox="0 0 1000 8" preserveAspectRatio="none" '
        'aria-hidden="true">{}</svg>',
        format_html_join(
            "", '<rect class="is-{}" data-state="{}" x="{}" width="{}" height="8"/>', parts
        ),
    )


@register.simple_tag
def meter(
    value: float | None,
    most: float,
    limit: float | None = None,
    warn: float | None = None,
    slo: float | None = None,
) -> SafeString:
    """A value on its scale with its marks: SLO, busy at, evict at. Only the part beyond a limit
    takes colour. Without a value the track is empty, which is not the look of zero.
    """
    value = present(value)
    marks = [
        (name, _at(place, most))
        for name, place in (("slo", slo), ("warn", warn), ("limit", limit))
        if place is not None
    ]
    edge = min((place for place in (slo, limit) if place is not None), default=most)
    bars = [] if value is None else [("used", "0%", _at(min(value, edge), most))]
    if value is not None and value > edge:
        bars.append(("over", _at(edge, most), _at(value - edge, most)))
    return format_html(
        '<svg class="meter" aria-hidden="true"><rect class="track" y="4" width="100%" height="6" '
        'rx="3"/>{}{}</svg>',
        format_html_join("", '<rect class="{}" x="{}" y="4" width="{}" height="6" rx="2"/>', bars),
        format_html_join("", '<rect class="{}" x="{}" width="2" height="14" rx="1"/>', marks),
    )


@register.inclusion_tag("components/_stages.html")
def stages(
    reached: Collection[str], took: Mapping[str, str] | None = None, now: str = ""
) -> dict[str, Any]:
    """The eight phases of a stop: those passed, a text for each (`≈ 6 s`), the one under way."""
    steps = []
    last = max((i for i, p in enumerate(names.PHASES) if p in reached), default=-1)
    for index, phase in enumerate(names.PHASES):
        done = phase in reached
        name = "done" if done else "now" if phase == now else "skipped" if index < last else ""
        steps.append({"name": name, "word": looks.PHASES[phase], "text": (took or {}).get(phase)})
    return {"steps": steps}


@register.simple_tag
def ministage(done: int, now: bool = True) -> SafeString:
    """The stage bar of a list row: `done` phases of eight, the next one under way."""
    count = len(names.PHASES)
    cells = (("done" if i < done else "now" if now and i == done else "") for i in range(count))
    return format_html(
        '<span class="ministage" role="img" aria-label="{} of {} stages">{}</span>',
        done,
        count,
        format_html_join("", '<i class="{}"></i>', ((cell,) for cell in cells)),
    )


@register.filter
def initials(name: str) -> str:
    """`MO` from `M. Ortega`."""
    words = [word for word in name.replace(".", " ").split() if word]
    return "".join(word[0] for word in words[:2]).upper() or "?"


def present(value: T | None) -> T | None:
    """None also for "", which is what a template hands over for an attribute of None."""
    return None if value == "" else value


def _glyph(name: str, classes: str = "") -> SafeString:
    return format_html(
        '<svg class="g{}" viewBox="0 0 16 16" aria-hidden="true">'
        '<path fill-rule="evenodd" d="{}"/></svg>',
        classes,
        looks.GLYPHS[name],
    )


def _glyph_of_tone(name: str) -> str:
    return next((look.glyph for look in looks.GPU.values() if look.tone == name), "dash")


def _time(moment: datetime, attribute: str, text: str) -> SafeString:
    exact = moment.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{}"{}>{}</time>',
        exact.isoformat(timespec="milliseconds"),
        exact.strftime("%a %-d %b %Y %H:%M:%S UTC"),
        format_html(" {}", attribute) if attribute else "",
        text,
    )


def _none(text: str = figures.NO_DATA) -> SafeString:
    return format_html('<span class="none">{}</span>', text)


def _at(value: float, most: float) -> str:
    return f"{max(0.0, min(1.0, value / most)):.2%}"
