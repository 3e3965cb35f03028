"""The connection to the console: the only module that opens a socket to it.

Nothing local waits for it. It comes back by itself, and says once what is wrong, not each time.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.frames import Close, CloseCode

from agents.complaints import Complaints
from agents.outbox import Outbox
from agents.wire import codec, packed
from agents.wire.limits import (
    MAX_MESSAGE_BYTES,
    MAX_SEQ,
    MAX_SKEW_S,
    PROTOCOL_MAX,
    PROTOCOL_MIN,
)
from agents.wire.messages import (
    BackfillAck,
    Envelope,
    EventAck,
    FromAgent,
    FromConsole,
    Hello,
    PackedTelemetry,
    Telemetry,
    Welcome,
)

log = logging.getLogger(__name__)

FIRST_RETRY_S: Final = 0.8
LONGEST_RETRY_S: Final = 10.0
# The console hands its agents over to another process of it, one by one.
HANDED_OVER: Final = 4410
HAND_OVER_S: Final = 0.3
# A connection that lived this long was a good one: the next failure starts a new series.
GOOD_AFTER_S: Final = 10.0
OPEN_TIMEOUT_S: Final = 5.0
SEND_TIMEOUT_S: Final = 8.0
# Together under ten seconds: the time in which a dead console is noticed.
PING_EVERY_S: Final = 3.0
PING_TIMEOUT_S: Final = 4.0
CLOSE_TIMEOUT_S: Final = 1.0
REFUSED: Final = frozenset({401, 403})
# It ends or begins again: that it is out of reach for a while is a part of that.
GOING: Final = frozenset({CloseCode.GOING_AWAY, CloseCode.SERVICE_RESTART})


class Station(Protocol):
    """The node that speaks through a link."""

    outbox: Outbox

    def hello(self) -> Hello: ...

    def received(self, envelope: Envelope, now: float) -> None: ...


class NotWelcome(ConnectionError):
    """The console answered the hello with something else than a welcome we can work with."""


class Silent(TimeoutError):
    """The console did not do in time what it should; the text says what."""


class Complaint(NamedTuple):
    """Why there is no connection. `heard`: the console, or what stands before it, said so itself;
    else it is out of reach, in one way or another."""

    sentence: str = ""
    heard: bool = False


class Link:
    """One node's connection; `run` keeps it up until it is cancelled."""

    def __init__(
        self,
        url: str,
        token: str,
        name: str,
        station: Station,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls` for a wss:// address, and for no other."""
        self._url, self._token, self._name, self._station = url, token, name, station
        self._tls = tls
        self._socket: ClientConnection | None = None
        self._cut_until = 0.0
        # What a fault of a simulated node makes of its telemetry.
        self.twisted: Callable[[PackedTelemetry], PackedTelemetry] = lambda told: told
        self._protocol = PROTOCOL_MIN
        self._welcomes = 0
        self._complaint = Complaint()
        self._complaints = Complaints()

    @property
    def is_up(self) -> bool:
        return self._socket is not None

    @property
    def complaint(self) -> str:
        """Why there is no connection; "" after a welcome."""
        return self._complaint.sentence

    @property
    def reconnects(self) -> int:
        """How often the connection came back."""
        return max(0, self._welcomes - 1)

    def cut(self, duration_s: float) -> None:
        """Drops the connection as a broken cable would, and keeps it down for a while."""
        self._cut_until = time.monotonic() + duration_s
        if self._socket is not None:
            self._socket.transport.abort()

    async def run(self) -> None:
        attempt = 0
        while True:
            await asyncio.sleep(max(0.0, self._cut_until - time.monotonic()))
            began = time.monotonic()
            try:
                await self._connect()
            except (OSError, WebSocketException, codec.WireError) as error:
                if _is_hand_over(error):
                    attempt = 0
                    await asyncio.sleep(random.uniform(0.0, HAND_OVER_S))
                    continue
                self._complain(_explained(error))
            except Exception as error:
                # A defect of ours costs a connection, never the link itself.
                self._complaint = Complaint(
                    f"this agent failed: {error!r}, see its log", heard=True
                )
                if self._complaints.due(repr(error)):
                    log.exception("%s: the connection failed", self._name)
            attempt = 0 if time.monotonic() - began > GOOD_AFTER_S else attempt + 1
            await asyncio.sleep(retry_after_s(attempt))

    async def _connect(self) -> None:
        async with connect(
            self._url,
            ssl=self._tls,
            additional_headers={"Authorization": f"Bearer {self._token}"},
            compression=None,
            open_timeout=OPEN_TIMEOUT_S,
            ping_interval=None,  # see Pulse
            close_timeout=CLOSE_TIMEOUT_S,
            max_size=MAX_MESSAGE_BYTES,
            proxy=None,
        ) as socket:
            await self._introduce(socket)
            self._socket = socket
            try:
                await self._converse(socket)
            except asyncio.CancelledError:
                await socket.close(CloseCode.GOING_AWAY, "the agent ends")
                raise
            finally:
                self._socket = None

    async def _introduce(self, socket: ClientConnection) -> None:
        await _send(socket, self._station.hello())
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                welcome = codec.decode_from_console(await _receive(socket))
        except TimeoutError as error:
            raise Silent(f"it did not answer the hello within {OPEN_TIMEOUT_S:g} s") from error
        self._greet(welcome)

    def _greet(self, welcome: FromConsole) -> None:
        """What the console answers the hello with. Raises NotWelcome."""
        if not isinstance(welcome, Welcome):
            raise NotWelcome(f"expected a welcome, received {type(welcome).__name__}")
        if not PROTOCOL_MIN <= welcome.protocol <= PROTOCOL_MAX:
            raise NotWelcome(
                f"the console chose protocol {welcome.protocol}, this agent speaks"
                f" {PROTOCOL_MIN} to {PROTOCOL_MAX}: update the older of the two"
            )
        if not 0 <= welcome.acked_seq <= MAX_SEQ:
            raise NotWelcome(f"no event has the number {welcome.acked_seq} that it says it has")
        self._protocol = welcome.protocol
        now, outbox = time.monotonic(), self._station.outbox
        outbox.resume(welcome.acked_seq, now)
        outbox.backfill.begin(missed_after(welcome, time.time()), time.time(), now)
        self._complaint = Complaint()
        self._welcomes += 1
        log.info("%s: connected to %s", self._name, self._url)

    async def _converse(self, socket: ClientConnection) -> None:
        sender = asyncio.create_task(self._send_all(socket))
        sender.add_done_callback(lambda _: socket.transport.abort())
        try:
            while True:
                self._obey(await _receive(socket))
        except ConnectionClosed:
            if sender.done():
                sender.result()  # what ended the sender ended the connection
            raise
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    def _obey(self, data: bytes) -> None:
        """One bad message is dropped and told; it does not cost the connection."""
        try:
            self._take(codec.decode_from_console(data))
        except codec.WireError as error:
            log.warning("%s: dropped a message: %s", self._name, error)
        except Exception as error:
            if self._complaints.due(repr(error)):
                log.exception("%s: a message could not be followed, dropped", self._name)

    def _take(self, message: FromConsole) -> None:
        if isinstance(message, EventAck):
            self._station.outbox.acknowledge(message.seq)
        elif isinstance(message, Envelope):
            self._station.received(message, time.monotonic())
        elif isinstance(message, BackfillAck):
            self._station.outbox.backfill.acknowledge(message.until, time.monotonic())

    async def _send_all(self, socket: ClientConnection) -> None:
        outbox, pulse = self._station.outbox, Pulse(socket)
        while True:
            await pulse.feel(time.monotonic())
            while (message := outbox.take(time.monotonic())) is not None:
                await _send(socket, self._worded(message))
            await outbox.wait(timeout_s=1.0)

    def _worded(self, message: FromAgent) -> FromAgent:
        """As the version of the protocol that the console chose says it."""
        if not isinstance(message, Telemetry | PackedTelemetry):
            return message
        if self._protocol < packed.SINCE_PROTOCOL:
            return packed.unpack(message) if isinstance(message, PackedTelemetry) else message
        told = packed.pack(message) if isinstance(message, Telemetry) else message
        return self.twisted(told)

    def _complain(self, complaint: Complaint) -> None:
        """Once, however many ways there are in which it stays out of reach."""
        before, self._complaint = self._complaint, complaint
        if before.sentence and not (before.heard or complaint.heard):
            return
        if complaint != before:
            log.warning("%s: no connection to %s: %s", self._name, self._url, complaint.sentence)


class Pulse:
    """Whether the other end lives. Felt whenever the sender is awake anyway, at least once a
    second: a task of its own would wake this process for it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._asked_at = time.monotonic()
        self._answer: asyncio.Future[float] | None = None

    async def feel(self, now: float) -> None:
        """Raises Silent when a ping found no answer in time."""
        passed_s = now - self._asked_at
        if self._answer is not None and not self._answer.done():
            if passed_s >= PING_TIMEOUT_S:
                raise Silent(f"it did not answer a ping within {PING_TIMEOUT_S:g} s")
        elif passed_s >= PING_EVERY_S:
            self._asked_at = now
            self._answer = asyncio.ensure_future(await self._socket.ping())


def missed_after(welcome: Welcome, now: float) -> float | None:
    """From when on a back-fill is wanted, by our clock at Unix time `now`. The console dates what
    comes from a clock that is off by its own."""
    ahead_s = now - welcome.server_time
    if welcome.history_after is None or abs(ahead_s) <= MAX_SKEW_S:
        return welcome.history_after
    return welcome.history_after + ahead_s


def _explained(error: Exception) -> Complaint:
    match error:
        case InvalidStatus() if error.response.status_code in REFUSED:
            return Complaint("it does not know this token: enrol the node again", heard=True)
        case InvalidStatus():
            return Complaint(f"HTTP status {error.response.status_code}", heard=True)
        case ConnectionClosed(rcvd=Close(code=code, reason=reason)):
            told = f"it closed the connection ({code}){reason and ': '}{reason}"
            return Complaint(told, heard=code not in GOING)
        case ConnectionClosed(sent=Close(code=code, reason=reason)):
            told = f"it does not keep to the protocol ({code}){reason and ': '}{reason}"
            return Complaint(told, heard=True)
        case ConnectionClosed():
            return Complaint("the connection broke off")
        case ssl.SSLCertVerificationError():
            why = error.verify_message
            return Complaint(f"its certificate is not trusted: {why} (see tls_ca)", heard=True)
        case NotWelcome() | codec.WireError() | ssl.SSLError():
            return Complaint(str(error), heard=True)
    return Complaint(str(error) or type(error).__name__)


def _is_hand_over(error: Exception) -> bool:
    match error:
        case ConnectionClosed(rcvd=Close(code=code)):
            return code == HANDED_OVER
    return False


def retry_after_s(attempt: int) -> float:
    """Anywhere below a bound that doubles up to ten seconds: a fleet that was cut off in one moment
    is spread over all of it from the first try on, and is back well within half a minute."""
    longest = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2 ** min(attempt, 8))
    return random.uniform(longest / 10, longest)


async def _send(socket: ClientConnection, message: FromAgent) -> None:
    try:
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await socket.send(codec.encode(message))
    except TimeoutError as error:
        raise Silent(f"it took nothing off the connection for {SEND_TIMEOUT_S:g} s") from error


async def _receive(socket: ClientConnection) -> bytes:
    data = await socket.recv()
    return data.encode() if isinstance(data, str) else data
