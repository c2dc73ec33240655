"""Brings back Slurm nodes that a rolling update of the workers left DOWN. Nothing that a person set is touched."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, field

from sparewheel.api.names import LABEL_APP_NAME, LABEL_POOL, SLURM_REASON_PREFIX, SLURMD_APP_NAME
from sparewheel.kube.pace import URGENCY, Urgency
from sparewheel.kube.port import POD
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.decide.left_down import Place, candidate, nobodys, why_left_down
from sparewheel.remediation.decide.observations import PodView, SlurmNodeView
from sparewheel.remediation.decide.slurm_return import SLINKY_PREFIX
from sparewheel.remediation.stages.incident import Ports
from sparewheel.remediation.stages.views import pod_view, slurm_node_view
from sparewheel.slurm.port import SlurmError, SlurmUnavailableError

log = logging.getLogger("sparewheel.remediation")


@dataclass(slots=True)
class LeftDown:
    ports: Ports
    state: State
    _spoken_for: set[str] = field(default_factory=set[str])
    """Nodes that somebody took out of service with words of his own; a later pod's preStop writes over them."""

    async def look(self) -> None:
        """One look at all Slurm nodes. Raises SlurmUnavailableError or KubeError."""
        URGENCY.set(Urgency.BACKGROUND)
        nodes = [slurm_node_view(node) for node in await self.ports.slurm.nodes()]
        self._remember(nodes)
        found = [node for node in nodes if candidate(node) and node.name not in self._spoken_for]
        if not found or not self.ports.leading():
            return
        listed = await self.ports.kube.list(POD, label_selector={LABEL_APP_NAME: SLURMD_APP_NAME})
        pods = defaultdict[str, list[PodView]](list)
        for pod in map(pod_view, listed.items):
            pods[pod.hostname or pod.name].append(pod)
        for node in found:
            await self._bring_back(node, pods[node.name])

    def _remember(self, nodes: list[SlurmNodeView]) -> None:
        out = {node.name: node for node in nodes if node.states & {"DOWN", "DRAIN", "FAIL"}}
        fresh = {name for name, node in out.items() if node.reason.strip() and not _not_a_persons(node.reason)}
        self._spoken_for = (self._spoken_for & out.keys()) | fresh

    async def _bring_back(self, node: SlurmNodeView, pods: list[PodView]) -> None:
        if not await self._may(node, pods):
            return
        fresh = slurm_node_view(await self.ports.slurm.node(node.name))
        if fresh != node or not await self._may(fresh, pods) or not self.ports.leading():
            return
        log.info("event=slurm_node_resumed slurm_node=%s was=%s", node.name, node.reason)
        try:
            await self.ports.slurm.set_node_state(node.name, ["RESUME"], "")
        except SlurmUnavailableError:
            raise
        except SlurmError as error:
            log.warning("event=resume_refused slurm_node=%s error=%s", node.name, error)

    async def _may(self, slurm: SlurmNodeView, pods: list[PodView]) -> bool:
        name = pods[0].node_name if len(pods) == 1 else ""
        node = self.state.nodes.get(name)
        pool = self.state.pools.get(node.labels.get(LABEL_POOL, "")) if node is not None else None
        place = Place(pods, node, self.state.health(name, None), pool.spec if pool is not None else None)
        why = why_left_down(slurm, place, self.state.policy_spec, await self.state.incidents())
        if why:
            log.debug("event=left_down slurm_node=%s reason=%s", slurm.name, why)
        return not why


def _not_a_persons(reason: str) -> bool:
    text = reason.strip().lower()
    return nobodys(reason) or text.startswith((SLINKY_PREFIX, SLURM_REASON_PREFIX))
