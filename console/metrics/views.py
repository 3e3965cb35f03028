"""`/metrics` of this process, and `/metrics/fleet`, which is the same from every process.

Open to those who bring the scrape token. Neither asks the database.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Final, TypeAlias

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.views.decorators.http import require_safe
from prometheus_client.exposition import choose_encoder, gzip_accepted

from console.errors import Unavailable
from console.metrics import access
from console.metrics.exposition import Format
from console.metrics.fleet import store
from console.metrics.process import REGISTRY

View: TypeAlias = Callable[[HttpRequest], HttpResponseBase]

PLAIN: Final = "text/plain; charset=utf-8"
CHUNK_BYTES: Final = 256 << 10
GZIP_WBITS: Final = 16 + zlib.MAX_WBITS


def scraped(view: View) -> View:
    """Only for GET, and for those who bring the token."""

    @require_safe
    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponseBase:
        refusal = access.refusal(request.headers.get("Authorization"), settings.METRICS_TOKEN)
        response = view(request) if refusal is None else _refused(refusal)
        response.headers["Cache-Control"] = "no-store"
        response.headers["Vary"] = "Accept, Accept-Encoding, Authorization"
        return response

    return answer


def _refused(refusal: access.Refusal) -> HttpResponse:
    headers = {"WWW-Authenticate": refusal.challenge} if refusal.challenge else {}
    return HttpResponse(
        f"{refusal.sentence}\n", content_type=PLAIN, status=refusal.status, headers=headers
    )


@scraped
def process(request: HttpRequest) -> HttpResponse:
    """What this process counts."""
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    page = encode(REGISTRY)
    if not _takes_gzip(request):
        return HttpResponse(page, content_type=content_type)
    packed = gzip.compress(page, 1)
    return HttpResponse(packed, content_type=content_type, headers={"Content-Encoding": "gzip"})


@scraped
def fleet(request: HttpRequest) -> HttpResponseBase:
    """What a worker wrote of the fleet; 503 when none did for a while."""
    _, content_type = choose_encoder(request.headers.get("Accept", ""))
    form = Format.OPENMETRICS if "openmetrics" in content_type else Format.TEXT
    try:
        packed = store.get(form)
    except Unavailable as error:
        return HttpResponse(f"{error}\n", content_type=PLAIN, status=503)
    if not _takes_gzip(request):
        return StreamingHttpResponse(_unpacked(packed), content_type=content_type)
    return HttpResponse(packed, content_type=content_type, headers={"Content-Encoding": "gzip"})


def _takes_gzip(request: HttpRequest) -> bool:
    return bool(gzip_accepted(request.headers.get("Accept-Encoding", "")))


def _unpacked(packed: bytes) -> Iterator[bytes]:
    """Piece by piece: the whole page is ten times as long."""
    unpack = zlib.decompressobj(GZIP_WBITS)
    for start in range(0, len(packed), CHUNK_BYTES):
        yield unpack.decompress(packed[start : start + CHUNK_BYTES])
    yield unpack.flush()
