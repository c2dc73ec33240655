"""Looks out for new incidents: reports of faults, requests by people, silence. Remembers which jobs ran where."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sparewheel.api.names import LABEL_POOL, LABEL_ROLE, ROLE_ACTIVE
from sparewheel.api.node_health import NodeHealth, NodeHealthStatus
from sparewheel.api.remediation import Remediation
from sparewheel.kube.pace import URGENCY, Urgency
from sparewheel.kube.port import LEASE, NODE_HEALTH, POD, InvalidError, Json, KubeError, NotFoundError, UnavailableError
from sparewheel.remediation.controller.left_down import LeftDown
from sparewheel.remediation.controller.own_ends import OwnEnds
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.decide.attempts import hold_reason
from sparewheel.remediation.decide.ladder import reboot_by, rungs_for
from sparewheel.remediation.decide.observations import PodView
from sparewheel.remediation.decide.record import fold
from sparewheel.remediation.decide.silence import Silence
from sparewheel.remediation.decide.triage import Fold, New, Report, triage
from sparewheel.remediation.stages import detected
from sparewheel.remediation.stages.incident import Ports
from sparewheel.remediation.stages.views import pod_view
from sparewheel.slurm.port import SlurmError

log = logging.getLogger("sparewheel.remediation")

KUBELET_LEASES = "kube-node-lease"
SUSPICIOUS_INTERVALS = 2.5
"""An agent silent for this many of its heartbeats is looked at closely."""
NO_REPORT = NodeHealthStatus()
"""Of a node whose agent was never heard; made once, since each sweep asks it of every such node."""
PROBE_SECONDS = 2.0
REMEMBER_EVERY_SECONDS = 10.0


@dataclass(slots=True)
class Scout:
    ports: Ports
    state: State
    found: Callable[[Remediation], None]
    wake: Callable[[str, str], None]
    troubles: Callable[[], list[str]]
    own_ends: OwnEnds = field(init=False)
    left_down: LeftDown = field(init=False)

    def __post_init__(self) -> None:
        self.own_ends = OwnEnds(self.ports, self.state)
        self.left_down = LeftDown(self.ports, self.state)

    # ---------------------------------------------------------------- triage
    def report(self, node: str) -> Report | None:
        view = self.state.nodes.get(node)
        if view is None:
            return None
        now = self.state.clock.monotonic_seconds()
        health = self.state.healths.get(node)
        reported = tuple(health.faults) if health else ()
        silence = Silence(
            agent_seconds=self._agent_seconds(node),
            kubelet_seconds=self.state.leases.silent_seconds(node, now),
            kubelet_unknown=view.ready is None,
        )
        return Report(
            node=view,
            boot_id=health.boot_id if health else "",
            faults=(*reported, *self.state.others_findings(view, reported)),
            fresh=self.state.heartbeats.last_heard(node) is not None,
            heartbeat=health.heartbeat_time if health else None,
            silence=silence,
        )

    async def triage(self, node: str) -> float | None:
        """A new incident, a fault folded into the open one, or nothing."""
        decision = self._decide(self.report(node), node)
        if isinstance(decision, Fold):
            incident = self.state.taken.get(decision.name)
            if incident is not None:
                await incident.update(*(fold(fault) for fault in decision.faults))
            return None
        if decision is None:
            return None
        report = self.report(node)
        if report is None:
            return None
        workers = await self._workers(node)
        slurm_node = next((pod.hostname for pod in workers), "")
        window = self.state.policy_spec.crashed_job_window_seconds + REMEMBER_EVERY_SECONDS
        jobs = self.state.remembered_jobs(node, slurm_node, window)
        decision = self._decide(replace(report, workers=workers, jobs_seen=jobs), node)
        if not isinstance(decision, New):
            return 0.0 if decision is not None else None
        if not self.ports.leading():
            return 1.0
        log.info("event=detected incident=%s node=%s code=%s", decision.name, node, decision.spec.fault.code)
        incidents, policy = await self.state.incidents(), self.state.policy_spec
        now = self.state.clock.now()
        hold = hold_reason(decision.spec, policy, incidents, now)
        pool = self.state.pools[decision.spec.pool].spec
        rungs, off = rungs_for(decision.spec, pool, policy, incidents, now)
        by = reboot_by(pool, policy)
        spec = decision.spec.model_copy(update={"hold": hold, "ladder": rungs, "ladder_off": off, "reboot_by": by})
        try:
            with self.state.making(decision.name):
                record = await detected.create(self.ports.kube, self.ports.namespace, decision.name, spec)
        except BaseException:
            self.wake("record", decision.name)  # it may have been made all the same, and a watch have shown it
            raise
        self.found(record)
        return None

    async def _workers(self, node: str) -> tuple[PodView, ...]:
        """As last seen; none seen is no proof that there is none."""
        seen = tuple(pod for pod in self.state.workers_on(node) if not pod.finished and not pod.deleting)
        if len(seen) == 1:
            return seen
        pods = await self.ports.kube.list(POD, field_selector=f"spec.nodeName={node}")
        return tuple(view for view in (pod_view(body) for body in pods.items) if view.worker)

    def _decide(self, report: Report | None, node: str) -> New | Fold | None:
        if report is None:
            return None
        pool = self.state.pools.get(report.node.labels.get(LABEL_POOL, ""))
        policy, open_incident = self.state.policy_spec, self.state.open_incident(node)
        return triage(
            report,
            pool,
            policy,
            open_incident,
            self.state.known_names(),
            self.state.clock.now(),
            self.state.of_node(node),
        )

    # ---------------------------------------------------------------- silence
    def silent_nodes(self) -> list[str]:
        """Active nodes whose agent has missed heartbeats. Goes through all nodes: asked once for each sweep."""
        self._doubt_watches()
        now, seconds = self.state.clock.monotonic_seconds(), SUSPICIOUS_INTERVALS * self.state.least_heartbeat_seconds
        silent = self.state.heartbeats.silent_longer(seconds, now)
        never_heard = self.state.nodes.keys() - self.state.heartbeats.names()
        return [name for name in (*silent, *sorted(never_heard)) if self._is_silent(name)]

    def _agent_seconds(self, node: str) -> float | None:
        """How long its agent is silent: since the Node is there, where it was not heard in this life of it."""
        now = self.state.clock.monotonic_seconds()
        silent = self.state.heartbeats.silent_seconds(node, now)
        return silent if silent is not None else self.state.lives.silent_seconds(node, now)

    def _doubt_watches(self) -> None:
        if self.troubles():
            self.api_failed()

    def _is_silent(self, name: str) -> bool:
        node, health = self.state.nodes.get(name), self.state.healths.get(name)
        if node is None or node.labels.get(LABEL_ROLE) != ROLE_ACTIVE:
            return False
        interval_seconds = (health or NO_REPORT).heartbeat_interval_seconds
        return (self._agent_seconds(name) or 0.0) > SUSPICIOUS_INTERVALS * interval_seconds

    async def probe(self, node: str) -> float | None:
        """Ask the API server itself, so that a stuck watch or an outage is not read as a dead node."""
        self._doubt_watches()
        if not self._is_silent(node):
            return None
        try:
            with suppress(NotFoundError):  # an agent that never ran; its kubelet has a word of its own
                self.state.hear(NodeHealth.from_wire(await self.ports.kube.get(NODE_HEALTH, node)))
            await self._hear_kubelet(node)
        except UnavailableError:
            self.api_failed()
            raise
        URGENCY.set(Urgency.FENCE)
        await self.triage(node)
        return PROBE_SECONDS

    async def _hear_kubelet(self, node: str) -> None:
        """Its Lease says at most ten seconds late that it lives; without one its Node condition has to do."""
        try:
            lease = await self.ports.kube.get(LEASE, node, KUBELET_LEASES)
        except (NotFoundError, InvalidError) as error:
            log.warning("event=no_kubelet_lease node=%s error=%s", node, error)
            return
        spec: Json = lease.get("spec") or {}
        self.state.leases.hear(node, spec.get("renewTime"), self.state.clock.monotonic_seconds())

    def api_failed(self) -> None:
        """Silence up to now proves nothing: whoever leads right after an outage would take it for death."""
        now = self.state.clock.monotonic_seconds()
        for tracker in (self.state.heartbeats, self.state.lives, self.state.leases):
            tracker.api_failed(now)

    # ---------------------------------------------------------------- jobs
    async def remember_for_ever(self) -> None:
        """Which jobs run on which Slurm node, so that one that ends between fault and fence is still known."""
        while True:
            try:
                await self.remember_jobs()
                await self.left_down.look()
            except (SlurmError, KubeError) as error:
                log.info("event=jobs_unknown error=%s", error)
            await self.state.clock.sleep(REMEMBER_EVERY_SECONDS)

    async def remember_jobs(self) -> None:
        jobs = await self.ports.slurm.jobs()
        self.state.remember_running({job.job_id: frozenset(job.nodes) for job in jobs if "RUNNING" in job.states})
        await self.own_ends.look(jobs)
