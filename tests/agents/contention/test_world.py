from __future__ import annotations

import itertools

import numpy as np
import pytest

from agents.contention.cluster import build_cluster
from agents.contention.jobs import ENDED_BY_SIGTERM, FINISHED, KILLED, OUT_OF_MEMORY
from agents.contention.world import GpuTaken, UnknownPlacement, World
from agents.wire.messages import Profile
from agents.wire.names import SIGNALS, Checkpoint, Signal

CLUSTER = build_cluster(2, 4, seed=3)
GIB = 1 << 30
AT = {signal: place for place, signal in enumerate(SIGNALS)}
BERT = Profile("bert-07", 55.0, 90.0, 4 * GIB, 30.0, work_s=36_000.0)


class Life:
    """A world whose time is moved by hand, 5 steps a second."""

    def __init__(self, clock=60.0, seed=3):
        self.world = World(CLUSTER, seed, clock)
        self.now = 1_000.0
        self.names = (f"placement-{number}" for number in itertools.count())
        self.run(0.2)

    def run(self, seconds):
        for _ in range(round(seconds * 5)):
            self.now += 0.2
            self.world.step(self.now)
        return self

    def start(self, gpu=0, profile=BERT, share=60.0, duty=60.0, quota=16 * GIB, **options):
        name = next(self.names)
        self.world.start(gpu, name, profile, share, quota, **options)
        self.world.set_duty(name, duty)
        return name

    def value(self, signal, gpu=0):
        return float(self.world.values()[gpu, AT[signal]])


def served(life):
    """A GPU with a service."""
    return next(gpu for gpu in range(life.world.n_gpus) if life.world.service(gpu))


def free(life):
    return next(gpu for gpu in range(life.world.n_gpus) if not life.world.service(gpu))


def test_a_sample_has_every_signal_of_a_serving_gpu():
    life = Life()
    values = life.world.values()
    assert values.shape == (8, len(SIGNALS))
    assert np.isfinite(values[served(life)]).all()


def test_a_free_gpu_has_no_latency_and_no_sm_activity():
    life = Life()
    assert np.isnan(life.value(Signal.ONLINE_P99, free(life)))
    assert life.value(Signal.SM_ACTIVITY, free(life)) == 0.0


def test_gpus_are_numbered_by_the_file():
    world = Life().world
    assert world.index("node-02", 1) == 5
    assert world.gpus_of("node-02") == slice(4, 8)
    with pytest.raises(KeyError):
        world.index("node-02", 4)


def test_the_same_seed_lives_the_same_life():
    assert np.array_equal(
        Life(seed=5).run(3).world.values(), Life(seed=5).run(3).world.values(), equal_nan=True
    )


def test_a_job_works_on_the_worlds_clock():
    life = Life()
    name = life.start(free(life), share=100.0, duty=90.0)
    life.run(11.6)
    job = life.world.job(name)
    assert job.throughput == pytest.approx(0.9, abs=0.02)
    assert job.work_done_s == pytest.approx(0.9 * 10 * 60, rel=0.05)
    assert job.progress == pytest.approx(job.work_done_s / BERT.work_s)


def test_a_job_raises_sm_activity_and_memory_of_its_gpu():
    life = Life()
    gpu = served(life)
    before = life.run(2).value(Signal.SM_ACTIVITY, gpu), life.value(Signal.MEMORY, gpu)
    life.start(gpu)
    life.run(5)
    assert life.value(Signal.SM_ACTIVITY, gpu) > before[0] + 15.0
    assert life.value(Signal.MEMORY, gpu) > before[1] + 3.9 * GIB
    assert life.world.offline_sm()[gpu] > 15.0
    assert life.world.offline_memory()[gpu] == pytest.approx(4 * GIB)


def test_a_frozen_job_stands_still_and_goes_on():
    life = Life()
    name = life.start()
    life.run(5).world.freeze(name)
    done = life.run(0.2).world.job(name).work_done_s
    assert life.run(3).world.job(name).work_done_s == done
    life.world.thaw(name)
    assert life.run(1).world.job(name).work_done_s > done


def test_a_job_that_is_done_exits_with_0_and_gives_its_memory_back():
    life = Life()
    short = Profile("bert-08", 55.0, 90.0, 4 * GIB, 30.0, work_s=60.0)
    name = life.start(free(life), short)
    job = life.run(10).world.job(name)
    assert (job.alive, job.exited, job.progress, job.unsaved_work_s) == (False, FINISHED, 1.0, 0.0)
    assert job.memory_bytes == 0


def test_a_job_resumes_where_it_had_saved():
    life = Life()
    name = life.start(resume_work_s=1_800.0)
    assert life.world.job(name).progress == pytest.approx(0.05)


def test_a_job_larger_than_its_quota_fails():
    life = Life()
    name = life.start(quota=2 * GIB)
    assert life.run(3).world.job(name).exited == OUT_OF_MEMORY


def test_a_saving_job_loses_at_most_its_period():
    life = Life()
    name = life.start(checkpoint_period_s=300.0)
    unsaved = [life.run(1).world.job(name).unsaved_work_s for _ in range(40)]
    assert 0.0 < max(unsaved) <= 300.0


def test_a_job_that_never_saves_loses_everything():
    life = Life()
    name = life.start(checkpoint=Checkpoint.NONE, checkpoint_period_s=60.0)
    job = life.run(20).world.job(name)
    assert job.unsaved_work_s == job.work_done_s > 0.0


# --- stops ------------------------------------------------------------------------------


def test_after_sigterm_a_job_saves_and_exits_with_0():
    life = Life()
    name = life.start()
    life.run(10).world.sigterm(name)
    life.world.set_duty(name, 5.0)
    job = life.run(4).world.job(name)
    assert (job.alive, job.exited, job.checkpointed) == (False, FINISHED, True)
    assert job.unsaved_work_s == 0.0


def test_a_frozen_job_cannot_save():
    life = Life()
    name = life.start()
    life.run(10).world.freeze(name)
    life.world.sigterm(name)
    assert life.run(30).world.job(name).alive
    life.world.thaw(name)
    assert life.run(4).world.job(name).checkpointed


def test_a_released_job_exits_without_having_saved():
    life = Life()
    name = life.start()
    life.run(10)
    life.world.gate(name)
    life.world.quiesce(name)
    life.world.release(name)
    job = life.run(1).world.job(name)
    assert (job.exited, job.checkpointed) == (ENDED_BY_SIGTERM, False)
    assert (job.gated, job.quiesced, job.released) == (True, True, True)


def test_a_killed_job_is_gone_at_once_and_its_memory_a_moment_later():
    life = Life()
    name = life.start()
    life.run(5).world.kill(name)
    job = life.run(0.2).world.job(name)
    assert (job.alive, job.exited) == (False, KILLED)
    assert job.memory_bytes > 0
    assert life.run(0.6).world.job(name).memory_bytes == 0


# --- ids and places ---------------------------------------------------------------------


def test_a_gpu_holds_one_job_and_is_free_when_its_memory_is():
    life = Life()
    first = life.start()
    with pytest.raises(GpuTaken, match="placement-0"):
        life.start()
    life.run(5).world.kill(first)
    with pytest.raises(GpuTaken):
        life.start()
    life.run(1).start()
    assert not life.world.job(first).alive


def test_a_placement_id_is_started_once_ever():
    life = Life()
    name = life.start()
    life.run(1).world.kill(name)
    life.run(1).world.forget(name)
    with pytest.raises(ValueError, match="an id runs once"):
        life.world.start(1, name, BERT, 50.0, 16 * GIB)


def test_what_was_never_started_or_is_forgotten_is_unknown():
    life = Life()
    name = life.start()
    life.world.forget(name)
    assert life.world.job(name).alive
    life.run(1).world.kill(name)
    life.world.forget(name)
    for unknown in (name, "nobody"):
        with pytest.raises(UnknownPlacement):
            life.world.job(unknown)


# --- faults -----------------------------------------------------------------------------


def test_a_spike_finds_the_busiest_shared_gpu():
    life = Life()
    gpu = served(life)
    life.start(gpu)
    assert life.run(3).world.spike(None, 2.5, 20.0) == life.world.service(gpu)


def test_a_spike_on_nobody_is_refused_with_the_names_that_exist():
    with pytest.raises(ValueError, match="search-rank"):
        Life().world.spike("no-such", 2.0, 5.0)


def test_a_spike_is_felt_within_one_local_sample_and_passes():
    life = Life()
    gpu = served(life)
    before = life.run(2).value(Signal.ONLINE_P99, gpu)
    life.world.spike(life.world.service(gpu), 2.5, 20.0)
    assert life.run(0.2).value(Signal.ONLINE_P99, gpu) > 2.0 * before
    assert life.run(30).value(Signal.ONLINE_P99, gpu) < 1.3 * before


def test_a_lost_node_shows_nothing_and_its_jobs_are_gone():
    life = Life()
    name = life.start(gpu=5)
    life.run(5).world.lose_node("node-02")
    life.run(1)
    assert life.world.is_lost("node-02")
    assert np.isnan(life.world.values()[4:]).all()
    assert np.isfinite(life.world.online_sm()[:4]).all()
    assert not life.world.job(name).alive
    life.world.restore_node("node-02")
    assert np.isfinite(life.run(0.2).world.online_sm()).all()


def test_an_xid_is_shown_for_a_second_or_so():
    life = Life()
    life.world.xid(2, 79)
    assert life.run(1).value(Signal.XID, 2) == 79.0
    assert life.run(1).value(Signal.XID, 2) == 0.0


def test_time_that_stands_still_or_goes_back_changes_no_progress():
    life = Life()
    name = life.start()
    done = life.run(5).world.job(name).work_done_s
    life.world.step(life.now)
    life.world.step(life.now - 50.0)
    assert life.world.job(name).work_done_s == done
