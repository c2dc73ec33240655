"""Who heals a pool's nodes, ours or a cloud's own healer: asked before a fence, and before a node is mended.

A fence ends jobs and keeps work away; beside another healer it does no harm twice. So where that can't be told now, the
last answer counts, and where there never was one the node is fenced. What touches the machine waits for a fresh answer.
"""

from __future__ import annotations

import asyncio

from sparewheel.capacity.port import CapacityError, UnreachableError
from sparewheel.kube.port import KubeError
from sparewheel.remediation.stages.incident import Incident, log

ASK_SECONDS = 3.0
"""A fence waits for the answer no longer than this: until then its jobs compute for nothing."""


async def refuse_anothers(incident: Incident) -> None:
    """Raises CapacityError where another is known to heal the node: a fence that nothing may follow only ends jobs."""
    try:
        other = await _ask(incident)
    except (CapacityError, KubeError) as error:
        other = incident.ports.healers.get(incident.record.spec.pool, "")
        log.warning("event=healer_unknown incident=%s fences=%s error=%s", incident.name, not other, error)
    if other:
        raise CapacityError(other)


async def we_alone(incident: Incident) -> None:
    """Raises CapacityError or KubeError unless it is known now that nobody else heals the node."""
    other = await _ask(incident)
    if other:
        raise CapacityError(other)


async def _ask(incident: Incident) -> str:
    pool = await incident.pool()
    try:
        async with asyncio.timeout(ASK_SECONDS):
            other = await incident.ports.replacer.other_healer(pool)
    except TimeoutError as error:
        name = pool.metadata.name
        raise UnreachableError(f"who heals the nodes of pool {name} was not told in {ASK_SECONDS:g} s") from error
    incident.ports.healers[pool.metadata.name] = other
    return other
