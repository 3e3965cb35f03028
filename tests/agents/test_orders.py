from __future__ import annotations

import msgspec
import pytest

from agents.orders import Orders
from agents.state import StateFile
from agents.wire import codec
from agents.wire.messages import DesiredGpu, Envelope, Unchanged
from agents.wire.names import SharingMode
from tests.agents.cast import KEY, desired, placement, sealed

NOW = 1_000.0
OTHER_KEY = codec.node_key(b"another console", "17")


class Desk:
    """The orders of a node, and a console that answers its last nonce."""

    def __init__(self, state, boot_id="boot 1", key=KEY):
        self.orders = Orders(state, "node-01", key, [0, 1], boot_id)

    def answer(self, message, key=KEY):
        fresh = msgspec.structs.replace(message, nonce=self.orders.fresh_nonce())
        return sealed(fresh, key)

    def receive(self, message, now=NOW, key=KEY):
        return self.orders.receive(self.answer(message, key), now)


@pytest.fixture
def state(tmp_path):
    state = StateFile(tmp_path)
    yield state
    state.close()


@pytest.fixture
def desk(state):
    return Desk(state)


def test_a_signed_fresh_state_is_obeyed_and_starts_the_lease(desk):
    assert desk.receive(desired(lease_s=60.0))
    assert desk.orders.generation == 1
    assert desk.orders.lease_left_s(NOW + 20) == 40


def test_a_state_of_another_console_is_refused_before_it_is_read(desk):
    assert not desk.receive(desired(), key=OTHER_KEY)
    assert "enrol the node again" in desk.orders.refusal
    assert desk.orders.desired is None


def test_a_changed_byte_breaks_the_signature(desk):
    envelope = desk.answer(desired())
    payload = bytes([envelope.payload[0] ^ 1]) + envelope.payload[1:]
    desk.orders.receive(Envelope(envelope.key_id, payload, envelope.mac), NOW)
    assert desk.orders.generation == 0


def test_a_recorded_envelope_does_not_renew_the_lease_later(desk):
    recorded = desk.answer(desired(lease_s=60.0))
    desk.orders.receive(recorded, NOW)
    for _ in range(40):
        desk.orders.fresh_nonce()
    desk.orders.receive(recorded, NOW + 300)
    assert "answers no status" in desk.orders.refusal
    assert desk.orders.lease_left_s(NOW + 300) == 0


def test_a_generation_never_goes_backwards(desk):
    desk.receive(desired(generation=5))
    assert not desk.receive(desired(placement(), generation=4))
    assert desk.orders.generation == 5
    assert "older than 5" in desk.orders.refusal


def test_the_same_state_again_only_renews(desk):
    desk.receive(desired(lease_s=60.0))
    assert not desk.receive(desired(lease_s=60.0), now=NOW + 50)
    assert desk.orders.refusal == ""
    assert desk.orders.lease_left_s(NOW + 50) == 60


def test_a_different_state_of_the_same_generation_is_refused(desk):
    desk.receive(desired())
    assert not desk.receive(desired(placement()))
    assert desk.orders.placements == ()


def test_unchanged_renews_the_generation_held(desk):
    desk.receive(desired(generation=5, lease_s=60.0))
    desk.receive(Unchanged(5, "", 60.0), now=NOW + 30)
    assert desk.orders.lease_left_s(NOW + 30) == 60


def test_unchanged_renews_no_generation_that_never_came(desk):
    desk.receive(desired(generation=5, lease_s=60.0))
    desk.receive(Unchanged(6, "", 60.0), now=NOW + 30)
    assert desk.orders.lease_left_s(NOW + 30) == 30


def test_a_good_order_clears_the_refusal(desk):
    desk.receive(desired(), key=OTHER_KEY)
    desk.receive(desired())
    assert desk.orders.refusal == ""


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (desired(placement(placement_id="../../etc/cron.d/x")), "not a UUID"),
        (desired(placement(placement_id="01920000000070008000000000000001")), "not a UUID"),
        (desired(placement(gpu_index=7)), "not on this node"),
        (desired(placement(job_name="x" * 200)), "over 128 characters"),
        (desired(*[placement()] * 300), "256 allowed"),
        (desired(gpus=(DesiredGpu(9, SharingMode.ENFORCE, "standard"),)), "does not have"),
        (desired(policies={}), "is not sent"),
        (desired(lease_s=0.0), "lease of 0"),
        (desired(lease_s=float("nan")), "lease of nan"),
        (desired(lease_s=1e9), "lease of 1"),
    ],
)
def test_a_state_that_makes_no_sense_here_is_refused_whole(desk, bad, why):
    assert not desk.receive(bad)
    assert why in desk.orders.refusal
    assert desk.orders.desired is None


def test_orders_and_lease_survive_a_restart_of_the_agent(state, desk):
    desk.receive(desired(placement(), generation=5, lease_s=60.0))
    heir = Desk(state).orders
    assert (heir.generation, heir.placements) == (5, (placement(),))
    assert heir.lease_left_s(NOW + 20) == 40


def test_the_lease_that_a_restart_finds_is_a_little_short_at_the_most_and_never_long(state, desk):
    desk.receive(desired(lease_s=100.0))
    written = []
    for second in range(1, 31):
        desk.receive(desired(lease_s=100.0), now=NOW + second)
        left_s = Desk(state).orders.lease_left_s(NOW + second)
        assert 95.0 < left_s <= 100.0
        written.append(left_s == 100.0)
    assert sum(written) == 30 / 5
    desk.receive(desired(lease_s=10.0), now=NOW + 31)
    assert Desk(state).orders.lease_left_s(NOW + 31) == 10.0


def test_a_reboot_of_the_machine_voids_the_lease_but_not_the_policy(state, desk):
    desk.receive(desired(lease_s=60.0))
    heir = Desk(state, boot_id="boot 2").orders
    assert heir.lease_left_s(NOW) == 0
    assert heir.policy(0) is not None


def test_kept_orders_of_another_key_are_void(state, desk):
    desk.receive(desired())
    assert Desk(state, key=OTHER_KEY).orders.desired is None
