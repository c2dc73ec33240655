"""Looks at the spares that stand by in the cluster: one that fell ill is found before it is needed.

A spare outside the cluster can't be looked at; its join and its checks say how it is.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from sparewheel.api.gpu_host import Claim, GpuHost, GpuHostStatus
from sparewheel.api.spare_test import SpareTest
from sparewheel.capacity import steps
from sparewheel.capacity.checks import trouble_of
from sparewheel.capacity.claims import PERSON, ClaimedError, claim, is_free
from sparewheel.capacity.heard import Reports
from sparewheel.capacity.hosts import Change, hosts_of, swap_status
from sparewheel.capacity.leftovers import Leftovers
from sparewheel.capacity.port import Check
from sparewheel.capacity.steps import Site
from sparewheel.kube.port import ConflictError
from sparewheel.remediation.decide.leftovers import kept_from_work

AGAIN: Final = timedelta(minutes=30)
"""How old a passed check may be before it is noted anew; half of what counts as recent when a spare is chosen."""


async def look_at_spares(site: Site) -> list[str]:
    """Quarantine what reports a fault, say where job processes are left, note when the others passed.

    One that doesn't report is left as it is.
    """
    if site.reports is None:
        return []
    notes: list[str] = []
    for host in await hosts_of(site.kube, site.namespace, site.pool.metadata.name):
        if is_free(host) and (host.status.node_name is not None or site.provider.keeps_node):
            notes += await _look(site, host, site.reports)
    return notes


async def _keep_from_work(site: Site, host: GpuHost) -> list[str]:
    """Say in the host's reason that job processes are left on it, and take that back once they have ended.

    Another reason stays: whoever searches for a spare asks what is left there anyway.
    """
    if host.status.reason and not kept_from_work(host):
        return []
    left = await Leftovers(site.kube, site.clock).on(host)
    if left == host.status.reason:
        return []

    def say(status: GpuHostStatus) -> None:
        status.reason = left

    noted = await _note(site, host, say)
    return [f"spare {host.spec.host}: {left or 'no job process is left on it'}"] if noted else []


async def _note(site: Site, host: GpuHost, change: Change) -> bool:
    """False where it was claimed meanwhile; it is checked again there."""
    site.before_write()
    try:
        await swap_status(site.kube, host, change)
    except ConflictError:
        return False
    return True


async def _look(site: Site, host: GpuHost, reports: Reports) -> list[str]:
    now, name = site.clock.now(), host.spec.host
    trouble = await trouble_of(site.kube, host, site.clock.monotonic_seconds(), reports)
    if trouble:
        taken = await quarantine_standing_by(site, host, f"as a spare, {trouble}")
        return [f"spare {name} is quarantined: {trouble}"] if taken else []
    said = await _keep_from_work(site, host)
    if said:
        return said
    checked = host.status.checked_at
    if host.status.node_name is None or (checked is not None and now - checked < AGAIN):
        return []
    if (await steps.check(site, host)).check is Check.PASSED:

        def passed(status: GpuHostStatus) -> None:
            status.checked_at = now

        await _note(site, host, passed)
    return []


def tested(test: SpareTest | int) -> Change:
    """How the last Slurm test job on the spare went, or which one is under way."""

    def change(status: GpuHostStatus) -> None:
        status.test_job_id = None if isinstance(test, SpareTest) else test
        status.slurm_test = test if isinstance(test, SpareTest) else status.slurm_test

    return change


async def quarantine_standing_by(site: Site, host: GpuHost, reason: str) -> bool:
    """False where somebody else has it: an incident has its own checks."""
    owner = f"{PERSON}{host.spec.host}"
    ours = Claim(owner=owner, purpose="fell ill while it stood by", time=site.clock.now())
    site.before_write()
    try:
        held = await claim(site.kube, site.namespace, host.metadata.name, ours, is_free)
    except (ClaimedError, ConflictError):
        return False
    await steps.quarantine(site, held, owner, reason)
    return True
