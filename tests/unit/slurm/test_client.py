"""The client's reading of slurmrestd; the samples are answers of Slurm 26.05.5, cut to a few fields."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from sparewheel.slurm.port import SlurmError, SlurmNotFoundError, SlurmReservation, SlurmUnavailableError
from tests.support.slurmrestd import JOB, NODE, RESERVATION, answering, client_of, number, problem


async def test_a_job_is_read() -> None:
    async with answering(200, {"jobs": [JOB]}) as client:
        job = await client.job(27)
    assert job.states == {"RUNNING"}
    assert job.nodes == ("gpu-0", "gpu-1")
    assert (job.restart_count, job.batch, job.requeue, job.expedited) == (1, True, True, True)
    assert (job.exit_code, job.exit_signal) == (0, None)
    assert (job.array_job_id, job.het_job_id) == (None, None)
    assert job.start_time == datetime.fromtimestamp(1796010013, UTC)
    assert job.end_time is None, "a running job's end_time is its limit"
    assert (job.extra, job.comment, job.user) == ('{"a":1}', "mine", "alice")


async def test_an_ended_job_has_its_end() -> None:
    ended = JOB | {"job_state": ["FAILED"], "flags": [], "array_job_id": number(5)}
    ended |= {"exit_code": {"status": ["SIGNALED"], "return_code": number(0), "signal": {"id": number(9)}}}
    async with answering(200, {"jobs": [ended]}) as client:
        job = (await client.jobs())[0]
    assert job.end_time == datetime.fromtimestamp(1827546013, UTC)
    assert (job.exit_signal, job.expedited, job.array_job_id) == (9, False, 5)


async def test_a_node_is_read() -> None:
    async with answering(200, {"nodes": [NODE]}) as client:
        node = await client.node("gpu-0")
    assert node.states == {"DOWN", "DRAIN", "DYNAMIC_NORM"}
    assert node.boot_time == datetime.fromtimestamp(1796000000, UTC)
    assert node.slurmd_start_time is None
    assert node.reason_changed_at is not None
    assert node.reason_changed_at.timestamp() == 1796000100
    assert (node.real_memory_mib, node.gres, node.partitions) == (24105, "gpu:8", ("gpu",))


async def test_reservations_are_read() -> None:
    async with answering(200, {"reservations": [RESERVATION]}) as client:
        (found,) = await client.reservations()
    start, end = datetime.fromtimestamp(1796010013, UTC), datetime.fromtimestamp(1827546013, UTC)
    flags = frozenset({"MAINT", "IGNORE_JOBS", "SPEC_NODES"})
    assert found == SlurmReservation("sparewheel-spare-gpu-2", ("gpu-2", "gpu-3"), ("root", "slurm"), flags, start, end)


async def test_reservations_that_cannot_be_read_are_not_none() -> None:
    async with answering(200, {"reservations": [RESERVATION | {"node_list": "gpu-[2"}]}) as client:
        with pytest.raises(SlurmError, match="reservation sparewheel-spare-gpu-2: node list"):
            await client.reservations()
    async with answering(200, {"errors": [problem(1001, "down")]}) as client:
        with pytest.raises(SlurmUnavailableError):
            await client.reservations()


async def test_a_ping_has_the_version() -> None:
    pings = [{"hostname": "slurmctld", "pinged": "UP", "responding": True, "mode": "primary"}]
    async with answering(200, {"pings": pings}) as client:
        ping = await client.ping()
    assert (ping.responding, ping.version, ping.hosts) == (True, "26.05.5", ("slurmctld",))


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (404, {"errors": [problem(2017, "Invalid job id specified")]}, SlurmNotFoundError),
        (200, {"errors": [problem(2017, "Invalid job id specified")]}, SlurmNotFoundError),
        (200, {"errors": [problem(9999, "Something else")]}, SlurmError),
        (200, {"errors": [problem(1001, "Communication connection failure")]}, SlurmUnavailableError),
        (500, {"errors": [problem(2180, "Unspecified")]}, SlurmUnavailableError),
        (511, {"errors": [problem(1007, "Protocol authentication error")]}, SlurmUnavailableError),
        (401, "Unauthorized", SlurmUnavailableError),
        (404, "Requested URL not found", SlurmError),
        (200, "<html>login</html>", SlurmUnavailableError),
        (200, '{"jobs": [{"job_id": "twenty"}]}', SlurmError),
        (200, {"jobs": []}, SlurmError),
        (200, {"jobs": [JOB | {"nodes": "gpu-[0-x]", "job_id": 1}]}, SlurmError),
        (422, {"errors": [problem(2010, "Invalid user id")]}, SlurmError),
        (302, "elsewhere", SlurmUnavailableError),
    ],
)
async def test_bad_answers(status: int, body: dict[str, Any] | str, error: type[SlurmError]) -> None:
    async with answering(status, body) as client:
        with pytest.raises(SlurmError, match="job 1") as caught:
            await client.job(1)
    assert type(caught.value) is error


async def test_an_unknown_node_is_proven_by_the_whole_list() -> None:
    async with answering(200, {"nodes": [NODE]}) as client:
        with pytest.raises(SlurmNotFoundError, match="gpu-9: slurmctld does not list it"):
            await client.node("gpu-9")


async def test_a_failed_list_is_no_absence() -> None:
    async with answering(200, {"nodes": [], "errors": [problem(1001, "down")]}) as client:
        with pytest.raises(SlurmUnavailableError):
            await client.node("gpu-0")


async def test_reads_may_carry_warnings() -> None:
    async with answering(200, {"jobs": [JOB], "warnings": [problem(0, "", "deprecated")]}) as client:
        assert (await client.job(27)).job_id == 27


async def test_no_answer_is_unavailable() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("", request=request)

    async with client_of(handler) as client:
        with pytest.raises(SlurmUnavailableError, match=r"jobs: http://rest\.test:6820 did not answer: ReadTimeout"):
            await client.jobs()
