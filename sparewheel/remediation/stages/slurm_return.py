"""Brings back the Slurm node that this incident struck, as soon as another instance has registered under its name."""

from __future__ import annotations

from sparewheel.api.names import SLINKY_POD_HOSTNAME
from sparewheel.kube.port import POD, KubeError
from sparewheel.remediation.decide.anew import another_machine
from sparewheel.remediation.decide.fence_record import disown_slurm, leave_slurm
from sparewheel.remediation.decide.observations import Gone, NodeView, PodView, SlurmNodeView, Unknown
from sparewheel.remediation.decide.slurm_return import foreign, may_restore, reason_is_ours, taken_over_by
from sparewheel.remediation.decide.spare_test import tests_cold
from sparewheel.remediation.stages import spare_test
from sparewheel.remediation.stages.incident import Incident
from sparewheel.remediation.stages.views import pod_view, slurm_node_view
from sparewheel.slurm.port import SlurmError, SlurmNotFoundError

_OUT = frozenset({"DOWN", "DRAIN", "FAIL"})


async def see_slurm_node(incident: Incident) -> SlurmNodeView | Gone | Unknown | None:
    name = incident.record.spec.slurm_node
    if name is None:
        return None
    try:
        return slurm_node_view(await incident.ports.slurm.node(name))
    except SlurmNotFoundError:
        return Gone()
    except SlurmError as error:
        return Unknown(str(error))


async def see_successors(
    incident: Incident, node: NodeView | Gone | Unknown | None = None
) -> tuple[PodView, ...] | Unknown:
    """Worker pods of the same Slurm node name on other nodes, or on another machine that took the node's name."""
    spec = incident.record.spec
    if spec.slurm_node is None:
        return ()
    try:
        found = await incident.ports.kube.list(POD, label_selector={SLINKY_POD_HOSTNAME: spec.slurm_node})
    except KubeError as error:
        return Unknown(str(error))
    pods = (pod_view(body) for body in found.items)
    other = isinstance(node, NodeView) and another_machine(incident.record, node)
    return tuple(pod for pod in pods if pod.worker and pod.node_name and (other or pod.node_name != spec.node))


async def restore(incident: Incident) -> bool:
    """Read again, then RESUME. Disowned only when Slurm shows the node in service, or somebody else took it out.

    A node that is resumed counts as silent until slurmctld's next ping is answered, and gets no job before (seen on
    26.05: 1.6 s). Whoever waits for it must not lose the other nodes meanwhile, so it is not back yet.
    """
    name = incident.record.spec.slurm_node
    node, successors = await see_slurm_node(incident), await see_successors(incident, await incident.see_node())
    theirs = taken_over_by(incident.record, node, successors)
    if theirs:
        return await incident.update(leave_slurm(theirs))
    if name is None or not may_restore(incident.record, node, successors):
        return False
    assert isinstance(node, SlurmNodeView)  # noqa: S101 - may_restore says so
    tests = tests_cold((await incident.pool()).spec)
    if not tests:
        return await _into_service(incident, node)
    async with incident.test_lock:  # two tracks bring it back
        return await _into_service(incident, node, tests=True)


async def _into_service(incident: Incident, node: SlurmNodeView, *, tests: bool = False) -> bool:
    """``tests``: behind a reservation first, until its test job has passed."""
    name, tested = node.name, incident.record.status.replacement.tested_at is not None
    if tests and not tested and (incident.record.status.replacement.admitted_at is None):
        return False
    if node.states & _OUT:
        if tests and not tested and not await spare_test.protect(incident, name):
            return False
        incident.lead()
        await incident.ports.slurm.set_node_state(name, ["RESUME"], "")
        node = slurm_node_view(await incident.ports.slurm.node(name))
    if node.states & _OUT or not node.registered:
        return False
    if tests and not await spare_test.passed(incident, node):
        return False
    return await incident.update(disown_slurm(name, incident.now()))


def _ours_to_lift(incident: Incident, node: SlurmNodeView) -> bool:
    theirs = incident.record.status.owned.foreign_reason
    return bool(node.states & _OUT) and not theirs and reason_is_ours(node.reason, incident.name)


async def resume_same_instance(incident: Incident) -> None:
    """The incident is called off and the same instance serves on: lift our own strike, nobody else's."""
    for name in list(incident.record.status.owned.slurm_down):
        node = await see_slurm_node(incident)
        if isinstance(node, Unknown):
            raise SlurmError(f"{incident.name}: Slurm node {name} can't be read, so it stays struck: {node.error}")
        if isinstance(node, SlurmNodeView) and _ours_to_lift(incident, node):
            incident.lead()
            await incident.ports.slurm.set_node_state(name, ["RESUME"], "")
        elif isinstance(node, SlurmNodeView) and foreign(node):
            incident.stage(leave_slurm(foreign(node)))
        await incident.update(disown_slurm(name, incident.now()))
