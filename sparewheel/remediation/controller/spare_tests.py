"""Tests warm spares ahead of need: one short Slurm job at a time for each pool, behind the spare's own reservation.

What is under way stands in Slurm, by the job's name, and how it went in the GpuHost: a controller that takes over goes
on where the other was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.spare_test import SpareTest, SpareTestRule
from sparewheel.remediation.decide.observations import JobView
from sparewheel.remediation.decide.spare_test import Result, Verdict, due, job_name, verdict
from sparewheel.remediation.decide.warm import Worker, reservation_name
from sparewheel.remediation.stages import spare_test
from sparewheel.remediation.stages.incident import Ports
from sparewheel.slurm.port import SlurmError, SlurmUnavailableError

log = logging.getLogger("sparewheel.remediation")

ILL = "its Slurm test job: "
"""How the reason begins of a spare that was quarantined for its test."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A spare that stands by, and its worker."""

    host: GpuHost
    worker: Worker
    boot_id: str


@dataclass(slots=True)
class SpareTests:
    ports: Ports
    must_lead: Callable[[], None]
    _asked: dict[str, tuple[int, datetime]] = field(default_factory=dict[str, tuple[int, datetime]])
    """Jobs that this controller submitted, by name: a list of jobs may not have them yet."""

    async def look(self, pool: GpuPool, standing: Sequence[Standing], hosts: Iterable[GpuHost]) -> bool:
        """One look; True while a test is under way. A look-up that fails ends it: nothing passed."""
        rule = pool.spec.spare_test
        if rule is None or not rule.enabled:
            return False
        now = self.ports.clock.now()
        for one in sorted(standing, key=lambda one: one.host.spec.host):
            if due(one.host.status.slurm_test, one.boot_id, now):
                return await self._test(pool, rule, one, self._somebody_failed(hosts))
        return False

    @staticmethod
    def _somebody_failed(hosts: Iterable[GpuHost]) -> str:
        """A host of the pool that is in quarantine for its test already: a test that fails everywhere is a bad test."""
        quarantined = (host for host in hosts if host.status.phase is HostPhase.QUARANTINED)
        return next((host.spec.host for host in quarantined if ILL in host.status.quarantine_reason), "")

    async def _test(self, pool: GpuPool, rule: SpareTestRule, one: Standing, failed_already: str) -> bool:
        slurm = self.ports.slurm
        name = job_name(one.host)
        job_id, asked_at = self._asked.get(name) or await self._known(name)
        if job_id is None:
            if one.worker.slurm is None or one.worker.slurm.busy:
                return False
            self.must_lead()
            try:
                job_id = await spare_test.submit(
                    slurm, name, one.worker.name, reservation_name(one.worker.name), pool.spec, rule
                )
            except SlurmUnavailableError:
                raise
            except SlurmError as error:
                return await self._ended(pool, one, name, Verdict(Result.UNTOLD, f"it was refused: {error}"), "", None)
            self._asked[name] = (job_id, asked_at)
        if one.host.status.test_job_id != job_id:
            self.must_lead()
            await self.ports.replacer.note_test(pool, one.host.spec.host, job_id)
        found = verdict(await spare_test.see(slurm, job_id), asked_at, rule.timeout_seconds, self.ports.clock.now())
        if found.result is Result.WAITS:
            return True
        if found.result is not Result.PASSED:
            self.must_lead()
            await slurm.cancel_job(job_id)
        return await self._ended(pool, one, name, found, failed_already, job_id)

    async def _known(self, name: str) -> tuple[int | None, datetime]:
        """A job that another controller submitted. Its time counts anew: no clock but ours is asked."""
        there: JobView | None = await spare_test.known(self.ports.slurm, name)
        found = (None if there is None else there.job_id, self.ports.clock.now())
        if there is not None:
            self._asked[name] = (there.job_id, found[1])
        return found

    async def _ended(
        self, pool: GpuPool, one: Standing, name: str, found: Verdict, failed_already: str, job_id: int | None
    ) -> bool:
        host, passed = one.host.spec.host, found.result is Result.PASSED
        log.info("event=spare_test host=%s result=%s why=%s", host, found.result.value, found.why)
        self.must_lead()
        if found.result is Result.FAILED and not failed_already:
            await self.ports.replacer.quarantine_spare(pool, host, f"{ILL}{found.why}")
        else:
            why = f"{found.why}; {failed_already} failed its test as well, so the test itself is looked at first"
            test = SpareTest(
                time=self.ports.clock.now(),
                boot_id=one.boot_id,
                passed=passed,
                message=why if found.result is Result.FAILED else found.why,
                job_id=job_id,
            )
            await self.ports.replacer.note_test(pool, host, test)
        self._asked.pop(name, None)
        return False
