"""What is kept from other work after a strike, and when the struck jobs may have it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.remediation import FenceKind, JobRecord, Outcome, Remediation
from sparewheel.kube.port import REMEDIATION
from sparewheel.remediation.decide.observations import Gone, JobView
from sparewheel.remediation.decide.survivors import (
    CALM_LOOK_SECONDS,
    HELD,
    LONGEST,
    LOOK_SECONDS,
    NO_SPARE,
    come_back,
    held_nodes,
    hold_name,
    holds_back,
    jobs_ready,
    lift_due,
    look_again_seconds,
    room,
    survivors_of,
)
from sparewheel.remediation.stages import survivors
from sparewheel.remediation.stages.incident import Incident
from sparewheel.remediation.stages.journal import Journal
from tests.support.clocks import StillClock
from tests.support.incidents import at, claimed, fenced, job
from tests.support.world import World

WAITS = job(states={"PENDING", "EXPEDITING"}, restart_count=1, nodes=frozenset())
SAVES = job(states={"PENDING", "COMPLETING", "EXPEDITING"}, restart_count=1)


def held(*, spare: bool = True) -> Remediation:
    record = fenced(struck=1.0)
    record.status.owned.held_nodes = ["gpu-1"]
    return claimed(record) if spare else record


def seen(record: Remediation, view: JobView | Gone) -> list[tuple[JobRecord, JobView | Gone]]:
    return [(record.status.jobs[0], view)]


@pytest.mark.parametrize(
    ("view", "ready"),
    [
        (job(), False),
        (SAVES, False),
        (WAITS, True),
        (job(states={"PENDING", "REQUEUE_HOLD"}, state_reason="JobHeldUser", restart_count=1), False),
        (job(states={"PENDING", "REQUEUE_HOLD"}, state_reason="JobHeldUser", restart_count=1, priority=9), True),
        (job(restart_count=1), True),
        (job(states={"COMPLETED"}), True),
        (Gone(), True),
    ],
)
def test_the_jobs_are_ready_once_they_wait_for_nothing_but_nodes(view: JobView | Gone, ready: bool) -> None:
    record = held()
    assert jobs_ready(record, seen(record, view), at(2)) is ready
    assert jobs_ready(record, seen(record, view), at(1 + record.spec.grace_seconds + 6)), "the grace is over"
    assert jobs_ready(record, [], at(2)), "nobody waits"


def test_the_spare_that_had_joined_is_struck_and_the_jobs_that_ran_again_are_waited_for_like_the_first_time() -> None:
    record = held()
    record.status.jobs[0].resumed_at, record.status.jobs[0].closed = at(9), True
    grace = record.spec.grace_seconds
    assert come_back(record) == [], "it goes on, and nobody waits for it"
    record.status.replacement.struck_again_at = at(100)
    assert come_back(record) == record.status.jobs
    assert not jobs_ready(record, seen(record, SAVES), at(100 + grace)), "its grace is counted from this strike"
    assert jobs_ready(record, seen(record, WAITS), at(102))
    assert not lift_due(record, seen(record, WAITS), at(102), room=False), "no node has joined yet"
    record.status.replacement.spare_host = None
    assert not lift_due(record, seen(record, WAITS), at(102), room=False)
    assert lift_due(record, seen(record, WAITS), at(100) + NO_SPARE + timedelta(seconds=1), room=False)
    record.status.jobs[0].resumed_at = None
    assert come_back(record) == [], "one that was given up is not waited for"


def test_jobs_that_save_are_looked_at_often_only_where_a_node_stands_by_and_rarer_the_longer_they_take() -> None:
    record = held()
    assert look_again_seconds(record, at(1), ready=False) == CALM_LOOK_SECONDS, "the spare is on its way"
    record.status.replacement.spare_slurm_node = "gpu-2"
    assert look_again_seconds(record, at(1), ready=False) == LOOK_SECONDS
    assert look_again_seconds(record, at(5), ready=False) == pytest.approx(0.2)
    assert look_again_seconds(record, at(60), ready=False) == CALM_LOOK_SECONDS
    assert look_again_seconds(record, at(1), ready=True) == CALM_LOOK_SECONDS


def test_a_job_that_crashed_and_is_not_requeued_yet_is_waited_for() -> None:
    record = held()
    record.status.jobs[0].crashed_by_itself = True
    assert not jobs_ready(record, seen(record, job(states={"FAILED"})), at(2))


def test_on_older_slurm_a_job_is_ready_once_it_was_given_priority_and_may_begin() -> None:
    record = held()
    record.status.fence = FenceKind.REQUEUE
    plain = record.status.jobs[0].model_copy(update={"expedited": False})
    assert not jobs_ready(record, [(plain, WAITS)], at(2))
    ahead = plain.model_copy(update={"requeued_at": at(2)})
    delayed = job(states={"PENDING"}, state_reason="BeginTime", restart_count=1)
    assert not jobs_ready(record, [(ahead, delayed)], at(2))
    assert jobs_ready(record, [(ahead, WAITS)], at(2))


def test_survivors_wait_for_the_spare_and_all_go_at_once() -> None:
    record = held()
    assert held_nodes(record) == ["gpu-0", "gpu-1"], "the struck node comes into service behind the hold"
    assert not lift_due(record, seen(record, WAITS), at(30), room=False)
    assert lift_due(record, seen(record, WAITS), at(30), room=True), "it can start elsewhere"
    record.status.replacement.slurm_restored_at = at(20)
    assert lift_due(record, seen(record, WAITS), at(30), room=False)
    assert not lift_due(record, seen(record, SAVES), at(30), room=True), "a rival could have the others"
    record.status.replacement.lifted_at = at(31)
    assert held_nodes(record) == []
    assert not holds_back(record)


def test_a_warm_spare_joins_as_it_is() -> None:
    record = held()
    record.status.replacement.spare_slurm_node = "gpu-2"
    assert held_nodes(record) == ["gpu-1", "gpu-2"]
    assert lift_due(record, seen(record, WAITS), at(3), room=False)


def test_survivors_are_not_kept_for_a_spare_that_does_not_come() -> None:
    record = held(spare=False)
    assert not lift_due(record, seen(record, WAITS), at(1 + NO_SPARE.total_seconds()), room=False)
    assert lift_due(record, seen(record, WAITS), at(2 + NO_SPARE.total_seconds()), room=False)
    record = held()
    assert not lift_due(record, seen(record, WAITS), at(1 + LONGEST.total_seconds()), room=False)
    assert lift_due(record, seen(record, WAITS), at(2 + LONGEST.total_seconds()), room=False)
    record.status.owned.foreign_reason = "bad HBM, kim"
    assert lift_due(record, seen(record, WAITS), at(30), room=False), "nobody will bring the node back"


def test_nothing_is_kept_for_jobs_that_run_on_or_do_not_come_back() -> None:
    record = held()
    record.status.fence = FenceKind.DRAIN
    assert lift_due(record, seen(record, job()), at(2), room=False)
    lost = record.status.jobs[0].model_copy(update={"job_id": 8, "not_requeued_reason": "it was --no-requeue"})
    record.status.jobs.append(lost)
    assert survivors_of(record, {7: {"gpu-0", "gpu-1"}, 8: {"gpu-0", "gpu-5"}}) == ["gpu-1"]
    record.status.outcome = Outcome.CANCELLED
    assert not holds_back(record)


IDLE, BUSY = frozenset({"IDLE", "DYNAMIC_NORM"}), frozenset({"ALLOCATED"})


def test_there_is_room_where_other_nodes_are_free() -> None:
    down = frozenset({"DOWN"})
    assert room([IDLE, BUSY, down], 1)
    assert not room([BUSY, down, IDLE | {"DRAIN"}, IDLE | {"COMPLETING"}], 1)
    assert not room([IDLE, BUSY], 2)


STATES = st.sampled_from([WAITS, SAVES, job(), job(restart_count=1), Gone(), job(states={"FAILED"})])


@given(views=st.lists(STATES, max_size=3), seconds=st.floats(1, 700), spare=st.booleans(), free=st.booleans())
def test_never_before_all_are_ready_and_never_for_ever(
    views: list[JobView | Gone], seconds: float, spare: bool, free: bool
) -> None:
    record = held(spare=spare)
    jobs = [(record.status.jobs[0], view) for view in views]
    due = lift_due(record, jobs, at(seconds), room=free)
    assert not due or jobs_ready(record, jobs, at(seconds))
    assert lift_due(record, jobs, at(seconds + LONGEST.total_seconds() + 1), room=free)


@pytest.mark.looptime
async def test_a_strike_dated_by_a_clock_ahead_holds_nothing_for_longer() -> None:
    """Another replica struck the node; its clock was an hour ahead of ours, and of Slurm's."""
    clock = StillClock()
    world = World(clock=clock)
    for node in ("gpu-0", "gpu-1"):
        world.slurm.add_node(node)
    world.submit(7, 99)
    record = held(spare=False)
    record.spec.slurm_node = "gpu-0"
    record.status.owned.slurm_struck_at = clock.now() + timedelta(hours=1)
    world.kube.put(REMEDIATION, record.to_wire())
    ports = world.controller().ports
    ports.leading = lambda: True
    incident = Incident(ports, Journal(world.kube, record), fenced_monotonic=clock.monotonic_seconds())
    name = hold_name(incident.name)
    assert await survivors.look(incident) is not None
    assert world.slurm.reservation_table[name].end_time == clock.now() + HELD
    clock.seconds += NO_SPARE.total_seconds() + 1
    assert await survivors.look(incident) is None
    assert name not in world.slurm.reservation_table
