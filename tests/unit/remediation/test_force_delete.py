"""A pod that stays after its forced deletion (a finalizer holds it) is asked again at a pace, not in a storm."""

from __future__ import annotations

import pytest

from sparewheel.api.names import LABEL_APP_NAME, SLURMD_APP_NAME
from sparewheel.api.remediation import Remediation
from sparewheel.kube.port import POD, REMEDIATION
from sparewheel.remediation.stages import drained
from sparewheel.remediation.stages.incident import Incident, PreconditionError
from sparewheel.remediation.stages.journal import Journal
from tests.support.incidents import NODE, at, claimed, fenced, worker
from tests.support.world import World

pytestmark = pytest.mark.looptime


def scene(*, proven: bool) -> tuple[World, Incident]:
    world = World()
    record = claimed(fenced())
    record.status.replacement.spare_host = "gpu-3"
    record.status.replacement.proven_off_at = at(5) if proven else None
    stored = Remediation.from_wire(world.kube.put(REMEDIATION, record.to_wire()))
    ports = world.controller().ports
    ports.leading = lambda: True
    incident = Incident(ports, Journal(world.kube, stored))
    world.capacity.hosts["gpu-3"].owner = incident.owner
    metadata = {"name": "gpu-0", "uid": "pod-uid", "labels": {LABEL_APP_NAME: SLURMD_APP_NAME}, "finalizers": ["a/b"]}
    world.kube.put(POD, {"metadata": metadata, "spec": {"nodeName": NODE}}, "slurm")
    return world, incident


async def test_only_the_first_forced_deletion_is_followed_by_a_look_at_once() -> None:
    _, incident = scene(proven=True)
    pod = worker()
    assert await drained.force_delete(incident, pod)
    assert not await drained.force_delete(incident, pod)


async def test_no_force_without_proof() -> None:
    world, incident = scene(proven=False)
    with pytest.raises(PreconditionError, match="not proven off"):
        await drained.force_delete(incident, worker())
    assert world.kube.peek(POD, "gpu-0", "slurm") is not None
