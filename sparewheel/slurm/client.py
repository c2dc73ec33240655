"""The real Slurm client: slurmrestd over httpx.

v0.0.44 (Slurm >= 25.11, what Slinky speaks) for all but requeue, which came with v0.0.45 (Slurm >= 26.05).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import httpx
import msgspec

from sparewheel.slurm.port import (
    BatchJob,
    Ping,
    SlurmError,
    SlurmJob,
    SlurmNode,
    SlurmNotFoundError,
    SlurmReservation,
    SlurmUnavailableError,
)
from sparewheel.slurm.shared import Shared
from sparewheel.slurm.token import TokenSource
from sparewheel.slurm.wire import DECODER, ENDED_STATES, WRITE_DECODER, Answer, Problem, WriteAnswer

API: Final = "/slurm/v0.0.44"
REQUEUE_API: Final = "/slurm/v0.0.45"
TIMEOUT: Final = httpx.Timeout(15.0, connect=5.0, pool=None)

INVALID_JOB_ID: Final = 2017
INVALID_NODE_NAME: Final = 2018
COMMUNICATION_ERRORS: Final = range(1000, 2000)
"""slurm_errno.h: the message layer, authentication included. slurmctld was not asked, or its answer was not heard."""
REFUSED_TOKEN: Final = (401, 511)


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    reason: str
    content: bytearray


class SlurmClient:
    """Implements ``sparewheel.slurm.port.Slurm``."""

    def __init__(
        self,
        url: str,
        token: TokenSource,
        *,
        user: str = "slurm",
        timeout: httpx.Timeout = TIMEOUT,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._user = user
        # httpx's own connections: slurmrestd's errors go on after "Connection: close", which aiohttp refuses to read
        # (seen on 26.05.5), and aiohttp sends a GET twice where the first is not answered; a requeue is a GET.
        self._http = httpx.AsyncClient(base_url=self._url, timeout=timeout, transport=transport, trust_env=False)
        self._nodes = Shared(self._ask_nodes)
        self._jobs = Shared(self._ask_jobs)
        self._reservations = Shared(self._ask_reservations, rest=0.0)

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def ping(self) -> Ping:
        return (await self._read(f"{API}/ping/", "ping")).ping()

    async def node(self, name: str) -> SlurmNode:
        """Read from the list of all nodes, on purpose.

        ``GET node/NAME`` doesn't refresh what is allocated, and slurmrestd then shows a node that was set DOWN under a
        job as MIXED, for as long as nobody lists (seen on 26.05.5). It also answers 200 for a node that isn't there.
        """
        known = (await self._nodes.get()).get(name)
        if known is None:
            raise SlurmNotFoundError(f"node {name}: slurmctld does not list it")
        return known

    async def nodes(self) -> list[SlurmNode]:
        return list((await self._nodes.get()).values())

    async def _ask_nodes(self) -> dict[str, SlurmNode]:
        views = (record.view() for record in (await self._read(f"{API}/nodes/", "nodes")).nodes)
        return {view.name: view for view in views}

    async def set_node_state(self, name: str, states: Sequence[str], reason: str) -> None:
        await self._write("POST", f"{API}/node/{name}", f"node {name}", {"state": list(states), "reason": reason})

    async def delete_node(self, name: str) -> None:
        try:
            await self._write("DELETE", f"{API}/node/{name}", f"delete node {name}")
        except SlurmError as error:  # a refusal has HTTP 500 too: whether slurmctld can be asked, its list says
            if name in await self._ask_nodes():
                raise SlurmError(f"slurmctld keeps it: {error}") from error

    async def job(self, job_id: int) -> SlurmJob:
        answer = await self._read(f"{API}/job/{job_id}", f"job {job_id}")
        for record in answer.jobs:
            if record.job_id == job_id:
                return _job(record)
        raise SlurmError(f"job {job_id}: slurmrestd answered about {[record.job_id for record in answer.jobs]}")

    async def jobs(self) -> list[SlurmJob]:
        return list(await self._jobs.get())

    async def _ask_jobs(self) -> list[SlurmJob]:
        return [_job(record) for record in (await self._read(f"{API}/jobs/", "jobs")).jobs]

    async def requeue(self, job_id: int) -> None:
        await self._write("GET", f"{REQUEUE_API}/job/{job_id}/requeue", f"requeue job {job_id}")

    async def update_job(
        self,
        job_id: int,
        *,
        comment: str | None = None,
        priority: int | None = None,
        hold: bool | None = None,
    ) -> None:
        body: dict[str, Any] = {}
        if comment is not None:
            body["comment"] = comment
        if priority is not None:
            body["priority"] = _number(priority)
        if hold is not None:
            body["hold"] = hold
        if body:
            await self._write("POST", f"{API}/job/{job_id}", f"update job {job_id}", body)

    async def submit_batch(self, job: BatchJob) -> int:
        body = {
            "name": job.name,
            "partition": job.partition,
            "reservation": job.reservation,
            "required_nodes": [job.node],
            "minimum_nodes": 1,
            "maximum_nodes": 1,
            "tasks": 1,
            "tres_per_node": f"gres/gpu:{job.gpus}",
            "time_limit": _number(job.minutes),
            "requeue": False,
            "script": job.script,
            "environment": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "current_working_directory": "/",
            "standard_input": "/dev/null",
            "standard_output": "/dev/null",
            "standard_error": "/dev/null",
        }
        what = f"submit job {job.name}"
        answer = await self._write("POST", f"{API}/job/submit", what, {"job": body})
        if not answer.job_id:
            raise SlurmError(f"{what}: slurmrestd answered without a job's number")
        return answer.job_id

    async def cancel_job(self, job_id: int) -> None:
        try:
            await self._write("DELETE", f"{API}/job/{job_id}", f"cancel job {job_id}")
        except SlurmUnavailableError:
            raise
        except SlurmError:
            try:
                states = (await self.job(job_id)).states
            except SlurmNotFoundError:
                return
            if not states & ENDED_STATES:
                raise

    async def reservations(self) -> list[SlurmReservation]:
        return list(await self._reservations.get())

    async def _ask_reservations(self) -> list[SlurmReservation]:
        answer = await self._read(f"{API}/reservations/", "reservations")
        return [_reservation(record) for record in answer.reservations]

    async def put_reservation(self, wanted: SlurmReservation) -> None:
        """One request for both: slurmrestd looks whether there is one of this name. What has begun can't begin anew."""
        if wanted.start_time is None or wanted.end_time is None:
            raise ValueError(f"reservation {wanted.name} needs a start_time and an end_time")
        body: dict[str, Any] = {
            "name": wanted.name,
            "node_list": list(wanted.nodes),
            "users": list(wanted.users),
            "flags": sorted(wanted.flags),
            "end_time": _number(int(wanted.end_time.timestamp())),
        }
        if wanted.name not in {there.name for there in await self.reservations()}:
            body["start_time"] = _number(int(wanted.start_time.timestamp()))
        await self._write("POST", f"{API}/reservation", f"reservation {wanted.name}", body)

    async def delete_reservation(self, name: str) -> None:
        try:
            await self._write("DELETE", f"{API}/reservation/{name}", f"delete reservation {name}")
        except SlurmError:
            if name in {there.name for there in await self.reservations()}:
                raise

    async def _read(self, path: str, what: str) -> Answer:
        reply = await self._send("GET", path, what)
        try:
            answer = DECODER.decode(reply.content)
        except msgspec.ValidationError as error:
            raise SlurmError(f"{what}: slurmrestd's answer has another form than v0.0.44: {error}") from error
        except msgspec.DecodeError as error:
            raise _unreadable(what, reply) from error
        _raise_problems(what, reply, answer.errors)
        return answer

    async def _write(self, method: str, path: str, what: str, body: dict[str, Any] | None = None) -> WriteAnswer:
        reply = await self._send(method, path, what, body)
        try:
            answer = WRITE_DECODER.decode(reply.content)
        except msgspec.DecodeError as error:
            raise _unreadable(what, reply) from error
        _raise_problems(what, reply, answer.errors)
        if answer.warnings:  # a field that it does not know is left out with a warning: that is no success
            raise SlurmError(f"{what}: done in part only: {'; '.join(map(str, answer.warnings))}")
        return answer

    async def _send(self, method: str, path: str, what: str, body: dict[str, Any] | None = None) -> Reply:
        for fresh in (False, True):
            token = await self._token.token(fresh=fresh)
            headers = {"X-SLURM-USER-NAME": self._user, "X-SLURM-USER-TOKEN": token}
            try:
                async with self._http.stream(method, path, json=body, headers=headers) as response:
                    content = bytearray()  # grows in place: a list of 28 MB is not there twice
                    async for chunk in response.aiter_bytes():
                        content += chunk
                    reply = Reply(response.status_code, response.reason_phrase, content)
            except httpx.HTTPError as error:
                raise SlurmUnavailableError(
                    f"{what}: {self._url} did not answer: {str(error) or type(error).__name__}"
                ) from error
            if reply.status not in REFUSED_TOKEN:
                return reply
        raise SlurmUnavailableError(f"{what}: slurmrestd refused the token; is it expired and no longer renewed?")


def _number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def _reservation(record: Any) -> SlurmReservation:
    try:
        return record.view()
    except ValueError as error:
        raise SlurmError(f"reservation {record.name}: {error}") from error


def _job(record: Any) -> SlurmJob:
    try:
        return record.view()
    except ValueError as error:
        raise SlurmError(f"job {record.job_id}: {error}") from error


def _raise_problems(what: str, reply: Reply, errors: list[Problem]) -> None:
    """HTTP 200 with errors is a failure; slurmctld out of reach is told apart from a refusal."""
    status = reply.status
    text = f"{what}: {status} " + ("; ".join(map(str, errors)) or reply.reason)
    numbers = {problem.error_number for problem in errors}
    if numbers & {INVALID_JOB_ID, INVALID_NODE_NAME}:
        raise SlurmNotFoundError(text)
    if status >= 500 or any(number in COMMUNICATION_ERRORS for number in numbers):
        raise SlurmUnavailableError(text)
    if errors or status >= 300:
        raise SlurmError(text)


def _unreadable(what: str, reply: Reply) -> SlurmError:
    """An answer that isn't slurmrestd's: a 404 in plain text is an endpoint that this version doesn't have."""
    text = f"{what}: {reply.status} {reply.content[:200].decode('utf-8', 'replace').strip()}"
    if reply.status == 404:
        return SlurmError(f"{text}; this slurmrestd lacks the endpoint, Slurm 26.05 or later has it")
    return SlurmUnavailableError(text)
