"""What the client asks slurmrestd to change, and what it makes of a refusal."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from sparewheel.slurm.port import BatchJob, SlurmError, SlurmReservation
from tests.support.slurmrestd import JOB, RESERVATION, answering, client_of, number, problem


@pytest.mark.parametrize("there", [[], [RESERVATION]])
async def test_a_reservation_is_made_or_changed_by_one_request(there: list[dict[str, Any]]) -> None:
    seen: list[tuple[str, str, Any]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"reservations": there, "errors": [], "warnings": []})
        seen.append((request.method, request.url.path, json.loads(request.content)))
        return httpx.Response(200, json={"reservations": [], "errors": [], "warnings": []})

    start, end = datetime.fromtimestamp(1796010000, UTC), datetime.fromtimestamp(1827546013, UTC)
    wanted = SlurmReservation("sparewheel-spare-gpu-2", ("gpu-2",), ("root",), frozenset({"MAINT"}), start, end)
    async with client_of(handler) as client:
        await client.put_reservation(wanted)
    body = {
        "name": "sparewheel-spare-gpu-2",
        "node_list": ["gpu-2"],
        "users": ["root"],
        "flags": ["MAINT"],
        "end_time": number(1827546013),
    }
    body |= {} if there else {"start_time": number(1796010000)}  # what has started can't be told to start again
    assert seen == [("POST", "/slurm/v0.0.44/reservation", body)]


@pytest.mark.parametrize("left", [[], [RESERVATION]])
async def test_a_refused_deletion_is_done_when_nothing_is_left(left: list[dict[str, Any]]) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"reservations": left, "errors": [], "warnings": []})
        assert (request.method, request.url.path) == ("DELETE", "/slurm/v0.0.44/reservation/sparewheel-spare-gpu-2")
        return httpx.Response(500, json={"errors": [problem(2073, "Requested reservation is invalid")]})

    async with client_of(handler) as client:
        if not left:
            await client.delete_reservation("sparewheel-spare-gpu-2")
            return
        with pytest.raises(SlurmError, match="Requested reservation is invalid"):
            await client.delete_reservation("sparewheel-spare-gpu-2")


async def test_writes_say_what_they_should() -> None:
    seen: list[tuple[str, str, Any]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else dict(request.url.params)
        seen.append((request.method, request.url.path, body))
        return httpx.Response(200, json={"results": None, "errors": [], "warnings": []})

    async with client_of(handler) as client:
        await client.set_node_state("gpu-0", ["DOWN"], "sparewheel: XID 79")
        await client.requeue(27)
        await client.update_job(27, comment="why", priority=9, hold=False)
        await client.update_job(27)
    assert seen == [
        ("POST", "/slurm/v0.0.44/node/gpu-0", {"state": ["DOWN"], "reason": "sparewheel: XID 79"}),
        ("GET", "/slurm/v0.0.45/job/27/requeue", {}),
        (
            "POST",
            "/slurm/v0.0.44/job/27",
            {"comment": "why", "priority": {"set": True, "infinite": False, "number": 9}, "hold": False},
        ),
    ]


TEST_JOB = BatchJob("probe", "gpu-2", "gpu", "sparewheel-spare-gpu-2", "#!/bin/sh\ntrue\n", gpus=8, minutes=2)


async def test_a_job_of_our_own_is_submitted_whole() -> None:
    """Names and types of the fields are those that slurmrestd 26.05.5 describes for v0.0.44."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"job_id": 31, "step_id": "batch", "errors": [], "warnings": []})

    async with client_of(answer) as client:
        assert await client.submit_batch(TEST_JOB) == 31
    (request,) = seen
    assert (request.method, request.url.path) == ("POST", "/slurm/v0.0.44/job/submit")
    job = json.loads(request.content)["job"]
    assert (job["name"], job["required_nodes"], job["reservation"]) == ("probe", ["gpu-2"], "sparewheel-spare-gpu-2")
    assert (job["requeue"], job["tres_per_node"], job["time_limit"]["number"]) == (False, "gres/gpu:8", 2)
    assert job["script"].startswith("#!/bin/sh")
    assert job["environment"], "slurmrestd refuses a job without one"


async def test_a_submission_without_a_number_is_a_failure() -> None:
    async with answering(200, {}) as client:
        with pytest.raises(SlurmError, match="without a job's number"):
            await client.submit_batch(TEST_JOB)
    async with answering(500, {"errors": [problem(2052, "Access denied to requested reservation")]}) as client:
        with pytest.raises(SlurmError, match="Access denied"):
            await client.submit_batch(TEST_JOB)


@pytest.mark.parametrize(
    ("state", "raises"), [("COMPLETED", False), ("CANCELLED", False), ("RUNNING", True), ("PENDING", True)]
)
async def test_a_refused_cancel_is_done_when_the_job_has_ended(state: str, raises: bool) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE":
            return httpx.Response(200, json={"errors": [problem(2021, "Job/step already completing or completed")]})
        return httpx.Response(200, json={"jobs": [JOB | {"job_state": [state]}], "errors": []})

    async with client_of(answer) as client:
        if raises:
            with pytest.raises(SlurmError, match="already completing"):
                await client.cancel_job(27)
        else:
            await client.cancel_job(27)


async def test_a_cancelled_job_that_is_gone_is_cancelled() -> None:
    async with answering(200, {"errors": [problem(2017, "Invalid job id specified")]}) as client:
        await client.cancel_job(27)


async def test_a_field_left_out_with_a_warning_is_a_failure() -> None:
    warning = problem(0, "", "Ignoring unknown field commment")
    async with answering(200, {"warnings": [warning]}) as client:
        with pytest.raises(SlurmError, match="done in part only: Ignoring unknown field"):
            await client.update_job(27, comment="x")
