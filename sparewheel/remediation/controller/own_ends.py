"""Tells users of jobs that ended by themselves and are held, in the job's comment. Nothing is released or cancelled."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from sparewheel.remediation.controller.state import State
from sparewheel.remediation.decide.own_end import (
    MARGIN_SECONDS,
    OwnEnd,
    claimable,
    doubts,
    ended_by_itself,
    is_told,
    own_end_sentence,
)
from sparewheel.remediation.decide.sentences import with_comment
from sparewheel.remediation.stages.incident import Ports
from sparewheel.remediation.stages.views import job_view
from sparewheel.slurm.port import SlurmError, SlurmJob, SlurmUnavailableError

log = logging.getLogger("sparewheel.remediation")


class _Attempt(NamedTuple):
    job_id: int
    restart_count: int


@dataclass(frozen=True, slots=True)
class _Held:
    """When the attempt was first seen held, and where it ran; none where that is not known."""

    monotonic_seconds: float
    time: datetime
    nodes: frozenset[str]
    hosts: frozenset[str]


@dataclass(slots=True)
class OwnEnds:
    ports: Ports
    state: State
    _held: dict[_Attempt, _Held] = field(default_factory=dict[_Attempt, _Held])

    async def look(self, jobs: Sequence[SlurmJob]) -> None:
        """One look at all jobs. A fault gets its whole time to claim a job first, and an open incident on the job's
        nodes until it ends. Raises SlurmUnavailableError.
        """
        clock, window = self.state.clock, self.state.policy_spec.crashed_job_window_seconds
        held = {_Attempt(v.job_id, v.restart_count): v for v in map(job_view, jobs) if ended_by_itself(v)}
        self._held = {attempt: self._held.get(attempt) or self._seen_now(attempt) for attempt in held}
        wait = timedelta(seconds=window + MARGIN_SECONDS)
        incidents = await self.state.incidents()
        faults = {node: health.faults for node, health in self.state.healths.items() if health.faults}
        for attempt, job in held.items():
            seen = self._held[attempt]
            end = OwnEnd(job.job_id, seen.nodes, seen.hosts, seen.time - wait, seen.time + wait)
            waited = clock.monotonic_seconds() - seen.monotonic_seconds
            if waited < wait.total_seconds() or is_told(job) or claimable(end, incidents):
                continue
            if self.ports.leading():
                sentence = own_end_sentence(job, doubts(end, incidents, faults))
                await self._write(job.job_id, with_comment(job.comment, sentence))

    def _seen_now(self, attempt: _Attempt) -> _Held:
        clock, nodes, places = self.state.clock, self.state.nodes_of_job(attempt.job_id), self.state.places()
        hosts = frozenset(places.get(node, node) for node in nodes)
        return _Held(clock.monotonic_seconds(), clock.now(), nodes, hosts)

    async def _write(self, job_id: int, comment: str) -> None:
        try:
            await self.ports.slurm.update_job(job_id, comment=comment)
        except SlurmUnavailableError:
            raise
        except SlurmError as error:
            log.info("event=comment_refused job=%d error=%s", job_id, error)
