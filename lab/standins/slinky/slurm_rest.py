"""slurmrestd in dialect v0.0.44, as the operator speaks it. An answer with ``errors`` is a failure, HTTP 200 or not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import httpx

from lab.standins.slinky import slurm_jwt
from lab.standins.slinky.objects import Obj, dig
from lab.standins.slinky.pace import (
    CLIENT_TOKEN_LIFETIME_SECONDS,
    REQUEST_TIMEOUT_SECONDS,
    TOKEN_RENEWAL_SHARE,
)
from sparewheel.clock import Clock

DIALECT: Final = "v0.0.44"
_USER: Final = "slurm"


class SlurmError(Exception):
    """slurmrestd couldn't be reached or said no; the message says what was asked and what it answered."""


class SlurmNode(NamedTuple):
    """A node's record in Slurm. ``states``: base state and flags in capitals, such as IDLE, DRAIN."""

    name: str
    states: frozenset[str]
    reason: str = ""
    comment: str = ""
    topology: str = ""

    @property
    def busy(self) -> bool:
        """True while a job, step, prolog or epilog may run on it."""
        return bool(self.states & {"ALLOCATED", "MIXED", "COMPLETING"})


class RunningJob(NamedTuple):
    """A running job: the nodes it holds and when its time is over (None: no limit)."""

    nodes: tuple[str, ...]
    deadline: datetime | None


class SlurmRest:
    """One cluster's slurmrestd, with a token that it signs itself."""

    def __init__(self, client: httpx.AsyncClient, url: str, key: bytes, clock: Clock) -> None:
        self._client = client
        self.url = url
        self.key = key
        self._clock = clock
        self._token = ""
        self._renew_at = datetime.min.replace(tzinfo=UTC)

    def _headers(self) -> dict[str, str]:
        now = self._clock.now()
        if now >= self._renew_at:
            self._token = slurm_jwt.signed(self.key, _USER, CLIENT_TOKEN_LIFETIME_SECONDS, now)
            self._renew_at = now + timedelta(seconds=CLIENT_TOKEN_LIFETIME_SECONDS * TOKEN_RENEWAL_SHARE)
        return {"X-SLURM-USER-NAME": _USER, "X-SLURM-USER-TOKEN": self._token}

    async def _ask(self, method: str, path: str, body: Obj | None = None) -> Obj:
        url = f"{self.url}/slurm/{DIALECT}/{path}"
        try:
            answer = await self._client.request(
                method, url, json=body, headers=self._headers(), timeout=REQUEST_TIMEOUT_SECONDS
            )
        except httpx.HTTPError as error:
            raise SlurmError(f"{method} {url}: {str(error) or type(error).__name__}; is slurmrestd running?") from error
        try:
            found: Obj = answer.json()
        except ValueError:
            found = {}
        errors: list[Obj] = found.get("errors") or []
        if answer.status_code >= 400 or errors:
            said = "; ".join(str(one.get("description") or one.get("error") or one) for one in errors)
            raise SlurmError(f"{method} {url}: HTTP {answer.status_code} {said or answer.text[:200]}")
        return found

    async def nodes(self) -> dict[str, SlurmNode]:
        """Every node's record by name."""
        found = await self._ask("GET", "nodes/")
        return {node.name: node for node in map(parse_node, found.get("nodes") or [])}

    async def running_jobs(self) -> list[RunningJob]:
        """Jobs in state RUNNING."""
        found = await self._ask("GET", "jobs/")
        return [job for job in map(parse_job, found.get("jobs") or []) if job is not None]

    async def update_node(self, name: str, **fields: Any) -> None:
        """Change a node's record; ``state`` is a list."""
        await self._ask("POST", f"node/{name}", fields)

    async def ping(self) -> None:
        """Ask whether a slurmctld answers; raises SlurmError if none does."""
        found = await self._ask("GET", "ping/")
        pings: list[Obj] = found.get("pings") or []
        if not any(one.get("pinged") in {"UP", True} or one.get("responding") is True for one in pings):
            raise SlurmError(f"GET {self.url} ping: no slurmctld answered")


def parse_node(record: Obj) -> SlurmNode:
    """A node out of slurmrestd's answer."""
    return SlurmNode(
        name=str(record["name"]),
        states=frozenset(record.get("state") or []),
        reason=record.get("reason") or "",
        comment=record.get("comment") or "",
        topology=record.get("topology") or "",
    )


def parse_job(record: Obj) -> RunningJob | None:
    """A running job out of slurmrestd's answer; None for a job in another state."""
    if "RUNNING" not in (record.get("job_state") or []):
        return None
    limit: Obj = record.get("time_limit") or {}
    deadline = None
    if limit.get("set", True) and not limit.get("infinite", False):
        start = datetime.fromtimestamp(dig(record, "start_time", "number", default=0), UTC)
        deadline = start + timedelta(minutes=limit.get("number") or 0)
    return RunningJob(tuple(expand(record.get("nodes") or "")), deadline)


_RANGES: Final = re.compile(r"^(?P<head>[^\[]*)\[(?P<ranges>[^\]]*)\](?P<tail>.*)$")


def expand(hostlist: str) -> Iterator[str]:
    """Names in a Slurm host list: ``gpu-[0-2,7],login-1``."""
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*", hostlist):
        yield from _expand_one(part)


def _expand_one(part: str) -> Iterator[str]:
    found = _RANGES.match(part)
    if found is None:
        yield part
        return
    for span in found["ranges"].split(","):
        first, dash, last = span.partition("-")
        for number in range(int(first), int(last if dash else first) + 1):
            for tail in _expand_one(found["tail"]) if found["tail"] else [""]:
                yield f"{found['head']}{str(number).zfill(len(first))}{tail}"
