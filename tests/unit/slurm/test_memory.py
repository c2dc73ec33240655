"""Slurm in memory behaves as was measured on 26.05.5."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sparewheel.slurm.memory import PING_SECONDS, MemoryJob, MemorySlurm
from sparewheel.slurm.port import SlurmError, SlurmNotFoundError, SlurmReservation, SlurmUnavailableError
from tests.support.clocks import StillClock


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def slurm(clock: StillClock) -> MemorySlurm:
    """Two members with a two-node job, a free spare, and a rival of the same size that waits."""
    slurm = MemorySlurm(clock)
    for name in ("gpu-0", "gpu-1"):
        slurm.add_node(name)
    slurm.submit(MemoryJob(1, node_count=2))
    slurm.submit(MemoryJob(2, node_count=2, user="bob"))
    return slurm


async def test_down_on_an_expedited_job_keeps_the_survivor(slurm: MemorySlurm, clock: StillClock) -> None:
    await slurm.set_node_state("gpu-0", ["DOWN"], "sparewheel: XID 79")
    job = await slurm.job(1)
    assert job.states == {"PENDING", "COMPLETING", "EXPEDITING"}
    slurm.add_node("gpu-2")
    clock.seconds += 2.1
    assert (await slurm.job(1)).nodes == ("gpu-1", "gpu-2")
    assert (await slurm.job(1)).restart_count == 1
    assert (await slurm.job(2)).states == {"PENDING"}


async def test_down_on_a_plain_job_may_lose_the_survivor(slurm: MemorySlurm, clock: StillClock) -> None:
    slurm.job_table[1].expedited = False
    slurm.add_node("gpu-2")
    await slurm.set_node_state("gpu-0", ["DOWN"], "x")
    clock.seconds += 2.1
    assert (await slurm.job(2)).states == {"RUNNING"}, "the rival"
    assert (await slurm.job(1)).states == {"PENDING"}


async def test_slurm_never_waits_for_the_struck_node(slurm: MemorySlurm) -> None:
    await slurm.set_node_state("gpu-0", ["DOWN"], "x")
    assert "COMPLETING" not in (await slurm.node("gpu-0")).states
    assert "COMPLETING" in (await slurm.node("gpu-1")).states


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_job_that_comes_back_to_a_rank_of_its_last_attempt_drains_the_node(
    slurm: MemorySlurm, clock: StillClock, hangs: bool
) -> None:
    """Seen on 26.05.5: "Duplicate jobid" in slurmd's log, the node drained, the job COMPLETING for good."""
    slurm.job_table[1].hangs = hangs
    await slurm.set_node_state("gpu-0", ["DOWN"], "x")
    clock.seconds += 5  # the others have saved, and so would this rank
    await slurm.set_node_state("gpu-0", ["RESUME"], "")
    clock.seconds += PING_SECONDS
    job, node = await slurm.job(1), await slurm.node("gpu-0")
    assert job.states == ({"PENDING", "COMPLETING"} if hangs else {"RUNNING"})
    assert node.reason == ("Duplicate jobid" if hangs else "")
    assert ("DRAIN" in node.states) is hangs
    clock.seconds += 3600
    assert ("COMPLETING" in (await slurm.job(1)).states) is hangs


async def test_requeue_waits_for_all_savers(slurm: MemorySlurm) -> None:
    await slurm.set_node_state("gpu-0", ["DRAIN"], "x")
    assert (await slurm.job(1)).states == {"RUNNING"}
    await slurm.requeue(1)
    assert "COMPLETING" in (await slurm.node("gpu-0")).states
    with pytest.raises(SlurmError, match="pending"):
        await slurm.requeue(1)


async def test_a_job_that_may_not_be_requeued_ends(slurm: MemorySlurm, clock: StillClock) -> None:
    slurm.job_table[1].requeue = False
    await slurm.set_node_state("gpu-0", ["DOWN"], "x")
    clock.seconds += 3
    assert (await slurm.job(1)).states == {"NODE_FAIL"}


async def test_an_expedited_job_that_fails_by_itself_is_held(slurm: MemorySlurm) -> None:
    slurm.end_job(1, exit_code=1)
    job = await slurm.job(1)
    assert job.states == {"PENDING", "REQUEUE_HOLD"}
    assert (job.state_reason, job.exit_code, job.restart_count) == ("JobHeldUser", 1, 1)
    slurm.cancel(2)
    assert (await slurm.job(1)).states == {"PENDING", "REQUEUE_HOLD"}
    assert (await slurm.job(1)).priority == 0
    slurm.node_table["gpu-0"].down = True
    await slurm.update_job(1, hold=False, priority=9)
    released = await slurm.job(1)
    assert "REQUEUE_HOLD" in released.states, "until it starts"
    assert released.priority == 9


async def test_a_failed_epilog_saves_the_crash(slurm: MemorySlurm, clock: StillClock) -> None:
    slurm.epilog_fails_on = {"gpu-0"}
    slurm.end_job(1, exit_code=1)
    assert {"IDLE", "DRAIN"} <= (await slurm.node("gpu-0")).states
    slurm.add_node("gpu-2")
    clock.seconds += 1
    assert (await slurm.job(1)).nodes == ("gpu-1", "gpu-2")


@pytest.mark.parametrize(
    ("before", "ask", "after"),
    [
        (["DOWN"], "IDLE", {"IDLE"}),
        (["DOWN"], "RESUME", {"IDLE"}),
        (["DOWN"], "UNDRAIN", {"DOWN"}),
        (["DRAIN"], "UNDRAIN", {"IDLE"}),
        (["DRAIN"], "RESUME", {"IDLE"}),
        (["DOWN", "DRAIN"], "UNDRAIN", {"DOWN"}),
    ],
)
async def test_node_states(clock: StillClock, before: list[str], ask: str, after: set[str]) -> None:
    slurm = MemorySlurm(clock)
    slurm.add_node("n")
    await slurm.set_node_state("n", before, "why")
    await slurm.set_node_state("n", [ask], "")
    clock.seconds += PING_SECONDS
    node = await slurm.node("n")
    assert node.states - {"DYNAMIC_NORM"} == after
    assert node.reason == ("why" if "DOWN" in after else "")


async def test_a_node_that_is_brought_back_gets_no_job_before_it_has_answered(clock: StillClock) -> None:
    slurm = MemorySlurm(clock)
    slurm.add_node("n")
    await slurm.set_node_state("n", ["DOWN"], "why")
    await slurm.set_node_state("n", ["RESUME"], "")
    slurm.submit(MemoryJob(1))
    assert "NOT_RESPONDING" in (await slurm.node("n")).states
    assert (await slurm.job(1)).states == {"PENDING"}
    clock.seconds += PING_SECONDS
    assert (await slurm.job(1)).nodes == ("n",)


async def test_a_node_without_a_slurmd_answers_nobody_until_one_registers(clock: StillClock) -> None:
    slurm = MemorySlurm(clock)
    slurm.add_node("n").slurmd_up = False
    await slurm.set_node_state("n", ["DOWN"], "slurm-operator: Pod is terminating")
    await slurm.set_node_state("n", ["RESUME"], "")
    slurm.submit(MemoryJob(1))
    clock.seconds += 100 * PING_SECONDS
    assert (await slurm.job(1)).states == {"PENDING"}
    slurm.restart_slurmd("n")
    assert (await slurm.job(1)).nodes == ("n",)


async def test_faults_on_demand(slurm: MemorySlurm) -> None:
    with pytest.raises(SlurmNotFoundError):
        await slurm.node("nope")
    with pytest.raises(SlurmNotFoundError):
        await slurm.job(99)
    slurm.fail(SlurmUnavailableError("cut"), "set_node_state", when="after")
    with pytest.raises(SlurmUnavailableError):
        await slurm.set_node_state("gpu-0", ["DOWN"], "x")
    assert "DOWN" in (await slurm.node("gpu-0")).states


async def test_a_job_that_lacks_a_node_blocks_nobody_until_its_survivors_are_reserved(
    slurm: MemorySlurm, clock: StillClock
) -> None:
    await slurm.put_reservation(SlurmReservation("hold", ("gpu-1",), end_time=clock.now() + timedelta(seconds=60)))
    await slurm.set_node_state("gpu-0", ["DOWN"], "sparewheel: XID 79")
    slurm.submit(MemoryJob(3, node_count=1))
    clock.seconds += 30
    assert (await slurm.job(3)).states == {"PENDING"}
    clock.seconds += 31
    assert (await slurm.job(3)).nodes == ("gpu-1",), "a reservation that has ended keeps nobody out"


async def test_nothing_starts_behind_a_reservation(slurm: MemorySlurm, clock: StillClock) -> None:
    slurm.add_node("gpu-2", drain_reason="registers")
    reservation = SlurmReservation("spare", ("gpu-2",), end_time=clock.now() + timedelta(hours=1))
    with pytest.raises(SlurmError, match="Invalid node name"):
        await slurm.put_reservation(SlurmReservation("none", ("gpu-9",)))
    await slurm.put_reservation(reservation)
    await slurm.set_node_state("gpu-2", ["RESUME"], "")
    slurm.submit(MemoryJob(3, node_count=1))
    assert (await slurm.job(3)).states == {"PENDING"}
    assert "MAINTENANCE" in (await slurm.node("gpu-2")).states
    assert await slurm.reservations() == [reservation]
    await slurm.delete_reservation("spare")
    await slurm.delete_reservation("spare")
    assert (await slurm.job(3)).nodes == ("gpu-2",)
