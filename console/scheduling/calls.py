"""What asks for a round, and the calls that come to nothing: kept, with their reason."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from console.announce import announce
from console.scheduling.models import Round

# Calls that came to nothing and are kept, of each kind. Our choice.
KEPT: Final = 100
# A message is not delivered again later than this.
REMEMBERED: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Call:
    """One message that asks for a round. `id` "" and `asked_at` None: it does not tell."""

    trigger: str = "schedule"
    id: str = ""
    asked_at: datetime | None = None


def why_void(kind: Round.Kind, call: Call, now: datetime) -> str:
    """Why no round is needed for `call` any more; "": it is."""
    begun = Round.objects.filter(kind=kind, started_at__gt=now - REMEMBERED)
    begun = begun.exclude(state=Round.State.SKIPPED)
    if call.id and (twin := begun.filter(call_id=call.id).first()):
        return f"Its message was delivered twice: round {twin.pk} came of it already."
    if call.asked_at is None:
        return ""
    since = begun.filter(started_at__gte=call.asked_at).order_by("-started_at").first()
    if since is None:
        return ""
    late_s = (now - call.asked_at).total_seconds()
    return f"It came {late_s:.1f} s late: round {since.pk} has looked since it was asked for."


def why_overlapping(kind: Round.Kind) -> str:
    """Why another worker holds the lease."""
    at_it = Round.objects.filter(kind=kind, state=Round.State.RUNNING).order_by("-pk").first()
    which = f"Round {at_it.pk}" if at_it else "Another round"
    return f"{which} was under way on another worker."


def skip(kind: Round.Kind, call: Call, why: str, now: datetime) -> Round:
    """The row of a call that came to nothing."""
    row = Round.objects.create(
        kind=kind,
        state=Round.State.SKIPPED,
        trigger=call.trigger,
        call_id=call.id,
        skipped_why=why[:200],
        started_at=now,
        finished_at=now,
    )
    _prune(kind)
    announce("rounds", id=row.pk)
    return row


def _prune(kind: Round.Kind) -> None:
    skipped = Round.objects.filter(kind=kind, state=Round.State.SKIPPED)
    edge = skipped.order_by("-pk").values_list("pk", flat=True)[KEPT - 1 : KEPT].first()
    if edge is not None:
        skipped.filter(pk__lt=edge).delete()
