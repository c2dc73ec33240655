"""The client's reading of slurmrestd; the samples are answers of Slurm 26.05.5, cut to a few fields."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import SECRET, UnavailableError
from sparewheel.slurm.client import SlurmClient
from sparewheel.slurm.port import BatchJob, SlurmError, SlurmNotFoundError, SlurmReservation, SlurmUnavailableError
from sparewheel.slurm.token import FileToken, SecretToken
from tests.support.clocks import StillClock

META = {"slurm": {"version": {"major": "26", "micro": "5", "minor": "05"}, "release": "26.05.5", "cluster": "slurm"}}


def number(value: int, *, known: bool = True) -> dict[str, Any]:
    return {"set": known, "infinite": False, "number": value}


JOB = {
    "job_id": 27,
    "name": "train",
    "user_name": "alice",
    "partition": "gpu",
    "job_state": ["RUNNING"],
    "state_reason": "None",
    "extra": '{"a":1}',
    "comment": "mine",
    "restart_cnt": 1,
    "requeue": True,
    "hold": False,
    "batch_flag": True,
    "flags": ["JOB_WAS_RUNNING", "EXPEDITED_REQUEUE"],
    "nodes": "gpu-[0-1]",
    "start_time": number(1796010013),
    "end_time": number(1827546013),
    "submit_time": number(1796010013),
    "exit_code": {
        "status": ["SUCCESS"],
        "return_code": number(0),
        "signal": {"id": number(0, known=False), "name": ""},
    },
    "array_job_id": number(0),
    "het_job_id": number(0),
}
NODE = {
    "name": "gpu-0",
    "state": ["DOWN", "DRAIN", "DYNAMIC_NORM"],
    "reason": "sparewheel: XID 79",
    "comment": "{}",
    "boot_time": number(1796000000),
    "slurmd_start_time": number(0),
    "reason_changed_at": number(1796000100),
    "partitions": ["gpu"],
    "real_memory": 24105,
    "gres": "gpu:8",
}


RESERVATION = {
    "name": "sparewheel-spare-gpu-2",
    "node_list": "gpu-[2-3]",
    "users": "root,slurm",
    "accounts": "",
    "flags": ["MAINT", "IGNORE_JOBS", "SPEC_NODES"],
    "start_time": number(1796010013),
    "end_time": number(1827546013),
    "node_count": 2,
    "partition": "",
}


class Token:
    def __init__(self) -> None:
        self.asked: list[bool] = []

    async def token(self, *, fresh: bool = False) -> str:
        self.asked.append(fresh)
        return "new" if fresh else "old"


def client_of(handler: Callable[[httpx.Request], httpx.Response]) -> SlurmClient:
    return SlurmClient("http://rest.test:6820", Token(), transport=httpx.MockTransport(handler))


def answering(status: int, body: dict[str, Any] | str) -> SlurmClient:
    text = body if isinstance(body, str) else json.dumps({"errors": [], "warnings": [], "meta": META, **body})
    return client_of(lambda _: httpx.Response(status, text=text))


def problem(error_number: int, error: str = "", description: str = "") -> dict[str, Any]:
    return {"description": description, "error_number": error_number, "error": error, "source": "x"}


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


async def test_reads_may_carry_warnings() -> None:
    async with answering(200, {"jobs": [JOB], "warnings": [problem(0, "", "deprecated")]}) as client:
        assert (await client.job(27)).job_id == 27


async def test_a_refused_token_is_read_again_once() -> None:
    token, seen = Token(), list[str]()

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["X-SLURM-USER-TOKEN"])
        good = request.headers["X-SLURM-USER-TOKEN"] == "new"
        return httpx.Response(200 if good else 511, json={"jobs": [JOB]} if good else {"errors": []})

    async with SlurmClient("http://rest.test", token, transport=httpx.MockTransport(handler)) as client:
        await client.job(27)
    assert seen == ["old", "new"]
    assert token.asked == [False, True]


async def test_no_answer_is_unavailable() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("", request=request)

    async with client_of(handler) as client:
        with pytest.raises(SlurmUnavailableError, match=r"jobs: http://rest\.test:6820 did not answer: ReadTimeout"):
            await client.jobs()


async def test_a_token_file_is_followed(tmp_path: Path) -> None:
    file = tmp_path / "jwt"
    source = FileToken(file)
    with pytest.raises(SlurmUnavailableError, match="can't be read"):
        await source.token()
    file.write_text("one\n")
    assert await source.token() == "one"
    file.write_text("two")
    os.utime(file, ns=(1, 1))
    assert await source.token() == "two"
    file.write_text("")
    with pytest.raises(SlurmUnavailableError, match="is empty"):
        await source.token(fresh=True)


async def test_a_token_secret_is_followed() -> None:
    kube, clock = MemoryKube(), StillClock()
    source = SecretToken(kube, "slurm", "jwt", "SLURM_JWT", clock)
    with pytest.raises(SlurmUnavailableError, match="404"):
        await source.token()
    for value in ("one", "two"):
        data = {"SLURM_JWT": base64.b64encode(value.encode()).decode()}
        kube.put(SECRET, {"metadata": {"name": "jwt"}, "data": data}, "slurm")
        assert await source.token() == "one" if value == "one" else True
    assert await source.token() == "one", "not asked for at every request"
    clock.seconds += 31
    assert await source.token() == "two"
    kube.fail(UnavailableError("away"), "get", SECRET)
    with pytest.raises(SlurmUnavailableError, match="away"):
        await source.token(fresh=True)
    kube.put(SECRET, {"metadata": {"name": "jwt"}, "data": {}}, "slurm")
    with pytest.raises(SlurmUnavailableError, match="is the Token object issued"):
        await source.token(fresh=True)
