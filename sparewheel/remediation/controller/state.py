"""What the controller knows beyond one incident: caches kept by watches, who was heard when, incidents in hand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from sparewheel.api.faults import Fault
from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.node_health import NodeHealth, NodeHealthStatus
from sparewheel.api.remediation import Remediation
from sparewheel.api.remediation_policy import RemediationPolicySpec, RemediationPolicyStatus
from sparewheel.capacity.heard import Watched
from sparewheel.clock import Clock
from sparewheel.kube.port import GPU_POOL, Json, Kube
from sparewheel.remediation.decide.conditions import condition_faults
from sparewheel.remediation.decide.observations import HealthView, NodeView, PodView
from sparewheel.remediation.decide.outboxes import Outboxes
from sparewheel.remediation.decide.record import is_open
from sparewheel.remediation.decide.treated import faults_of
from sparewheel.remediation.stages.incident import Incident
from sparewheel.remediation.stages.journal import RecordGoneError
from sparewheel.silence import SilenceTracker

REMEMBER_JOBS_SECONDS = 180.0
"""How long a job seen alive on a node is remembered."""
HEARD_SLACK_SECONDS = 0.2


@dataclass(slots=True)
class State:
    """Implements ``stages.incident.Fleet`` from the caches."""

    kube: Kube
    clock: Clock
    namespace: str
    nodes: dict[str, NodeView] = field(default_factory=dict[str, NodeView])
    healths: dict[str, NodeHealthStatus] = field(default_factory=dict[str, NodeHealthStatus])
    pools: dict[str, GpuPool] = field(default_factory=dict[str, GpuPool])
    hosts: dict[str, GpuHost] = field(default_factory=dict[str, GpuHost])
    records: dict[str, Remediation] = field(default_factory=dict[str, Remediation])
    """All there are, those in hand too; change them by ``put_record`` and ``drop_record``."""
    policy_spec: RemediationPolicySpec = field(default_factory=RemediationPolicySpec)
    notify_request: str = ""
    """The request for test messages that the policy carries, and the one that was answered last."""
    notify_answered: str = ""
    policy_status: RemediationPolicyStatus = field(default_factory=RemediationPolicyStatus)
    heartbeats: SilenceTracker = field(default_factory=SilenceTracker)
    least_heartbeat_seconds: float = float("inf")
    """The shortest interval that any agent ever reported; a node that is not silent by it is not by its own."""
    lives: SilenceTracker = field(default_factory=SilenceTracker)
    """Since when each Node is there: an agent that says nothing at all is awaited from then on."""
    leases: SilenceTracker = field(default_factory=SilenceTracker)
    taken: dict[str, Incident] = field(default_factory=dict[str, Incident])
    """Incidents that this controller works on; their journals are newer than the cache. Change them by ``take`` and
    ``let_go``."""
    in_making: set[str] = field(default_factory=set[str])
    """Records that we are about to have made: a watch may show them before the answer to our request is here."""
    outboxes: Outboxes = field(default_factory=Outboxes)
    """Of the newest records."""
    gone_nodes: dict[str, NodeView] = field(default_factory=dict[str, NodeView])
    """Nodes that were deleted while we watched, as they were last seen; forgotten when the name comes back, or no host
    bears it any more."""
    held_body: Callable[[str], Json | None] = dict[str, Json]().get
    """What a Node's view was made of, as its watch holds it."""
    _places: dict[str, str] = field(default_factory=dict[str, str])
    """Slurm node name to the Node that its worker runs on."""
    _workers: dict[str, tuple[PodView, ...]] = field(default_factory=dict[str, tuple[PodView, ...]])
    """Node to its worker pods, one of each uid."""
    _last_workers: dict[str, PodView] = field(default_factory=dict[str, PodView])
    """Node to the worker pod that was last seen there, also after it went, for as long as there is such a Node or host.
    """
    _by_node: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Node to the names of its records."""
    _jobs_seen: dict[str, dict[int, float]] = field(default_factory=dict[str, dict[int, float]])
    _job_nodes: dict[int, frozenset[str]] = field(default_factory=dict[int, frozenset[str]])

    # ---------------------------------------------------------------- Fleet
    async def pool(self, name: str) -> GpuPool:
        known = self.pools.get(name)
        if known is not None:
            return known
        return GpuPool.from_wire(await self.kube.get(GPU_POOL, name, self.namespace))

    async def policy(self) -> RemediationPolicySpec:
        return self.policy_spec

    def breaker(self) -> RemediationPolicyStatus:
        return self.policy_status

    def gpu_nodes(self) -> int:
        return sum(pool.spec.size for pool in self.pools.values())

    async def incidents(self) -> Sequence[Remediation]:
        return self.newest_records()

    def newest_records(self) -> list[Remediation]:
        """All records: those in hand from their journals, the others from the cache."""
        return list({**self.records, **{name: incident.record for name, incident in self.taken.items()}}.values())

    def node_body(self, name: str) -> Json | None:
        return self.held_body(name)

    def places(self) -> Mapping[str, str]:
        return self._places

    def workers_on(self, node: str) -> tuple[PodView, ...]:
        return self._workers.get(node, ())

    # ---------------------------------------------------------------- workers
    def put_worker(self, pod: PodView) -> None:
        if pod.node_name:
            self._workers[pod.node_name] = (*self._others(pod), pod)
            self._places[pod.hostname or pod.name] = pod.node_name
            self._last_workers[pod.node_name] = pod

    def last_worker(self, node: str) -> PodView | None:
        """The worker that was last seen on the node; None where its name serves on another node by now."""
        pod = self._last_workers.get(node)
        return pod if pod is not None and self._places.get(pod.hostname or pod.name, node) == node else None

    def drop_worker(self, pod: PodView) -> None:
        """A name whose pod moved stays where its newest pod is."""
        self._workers[pod.node_name] = self._others(pod)
        if not self._workers[pod.node_name]:
            del self._workers[pod.node_name]
        if self._places.get(pod.hostname or pod.name) == pod.node_name:
            del self._places[pod.hostname or pod.name]

    def _others(self, pod: PodView) -> tuple[PodView, ...]:
        return tuple(other for other in self.workers_on(pod.node_name) if other.uid != pod.uid)

    def forget_strangers(self) -> None:
        """What is kept of names that no Node and no host bears: in a cloud each machine comes with a new one."""
        if not self.gone_nodes and len(self._last_workers) <= len(self.nodes):
            return
        known = self.nodes.keys() | {host.status.node_name for host in self.hosts.values()}
        for kept in (self.gone_nodes, self._last_workers):
            for name in kept.keys() - known:
                del kept[name]

    def in_hand(self) -> int:
        return len(self.taken)

    async def certain_outboxes(self) -> Outboxes:
        for incident in [one for one in self.taken.values() if not one.journal.certain]:
            with suppress(RecordGoneError):  # its own track finds that out
                await incident.journal.make_sure()
        return self.outboxes

    def others_findings(self, node: NodeView, reported: tuple[Fault, ...]) -> tuple[Fault, ...]:
        """Faults that other programs tell by conditions of the Node, beside those that its agent reports."""
        rules = self.policy_spec.node_conditions
        if not rules or not node.conditions:
            return ()
        incident = self.open_incident(node.name)
        in_work = [] if incident is None else faults_of(incident)
        return condition_faults(node.conditions, rules, reported, {(fault.code, fault.device) for fault in in_work})

    def health(self, node: str, since_monotonic: float | None) -> HealthView | None:
        status = self.healths.get(node)
        now = self.clock.monotonic_seconds()
        silent = self.heartbeats.silent_seconds(node, now)
        if status is None or silent is None:
            return None
        heard = self.heartbeats.last_heard(node)
        after = since_monotonic is not None and heard is not None and heard > since_monotonic + HEARD_SLACK_SECONDS
        alive = frozenset(job.job_id for job in status.jobs if job.processes)
        view = self.nodes.get(node)
        return HealthView(
            boot_id=status.boot_id,
            heard_seconds_ago=silent,
            kubelet_silent_seconds=self.leases.silent_seconds(node, now),
            heard_since_fence=after,
            jobs_alive=alive if status.jobs_observed_time is not None else None,
            faults=(*status.faults, *(self.others_findings(view, tuple(status.faults)) if view is not None else ())),
            gpus_expected=status.gpus.expected,
            gpus_seen=status.gpus.seen,
            action=status.action,
        )

    def remembered_jobs(self, node: str, slurm_node: str, within_seconds: float) -> Mapping[int, frozenset[str]]:
        limit = self.clock.monotonic_seconds() - min(within_seconds, REMEMBER_JOBS_SECONDS)
        seen = {**self._jobs_seen.get(f"slurm/{slurm_node}", {}), **self._jobs_seen.get(f"node/{node}", {})}
        return {job: self._job_nodes.get(job, frozenset()) for job, at in seen.items() if at >= limit}

    def nodes_of_job(self, job_id: int) -> frozenset[str]:
        """Slurm nodes that the job was last seen running on; empty where that is not remembered."""
        return self._job_nodes.get(job_id, frozenset())

    # ---------------------------------------------------------------- remembering
    def remember_running(self, jobs: Mapping[int, frozenset[str]]) -> None:
        """Slurm's list of running jobs, with the Slurm nodes of each."""
        for job_id, nodes in jobs.items():
            for node in nodes:
                self.remember_job(f"slurm/{node}", job_id)
        limit = self.clock.monotonic_seconds() - REMEMBER_JOBS_SECONDS
        recent = {job for seen in self._jobs_seen.values() for job, at in seen.items() if at >= limit}
        for place in [place for place, seen in self._jobs_seen.items() if max(seen.values(), default=limit) < limit]:
            del self._jobs_seen[place]
        self._job_nodes = {**{job: at for job, at in self._job_nodes.items() if job in recent}, **jobs}

    def remember_job(self, place: str, job_id: int) -> None:
        """``place``: ``node/NAME`` (the agent saw its processes) or ``slurm/NAME`` (Slurm had it running there)."""
        now = self.clock.monotonic_seconds()
        jobs = self._jobs_seen.setdefault(place, {})
        jobs[job_id] = now
        for old in [job for job, at in jobs.items() if at < now - REMEMBER_JOBS_SECONDS]:
            del jobs[old]

    def hear(self, health: NodeHealth) -> None:
        """A report came in (or was listed again): remember when it changed, and the jobs alive in it."""
        status = health.status
        name = health.metadata.name
        before = self.healths.get(name)
        changed = before is None or before.heartbeat_time != status.heartbeat_time
        self.healths[name] = status
        self.least_heartbeat_seconds = min(self.least_heartbeat_seconds, status.heartbeat_interval_seconds)
        value = (status.heartbeat_time, status.jobs_observed_time, status.boot_id)
        self.heartbeats.hear(name, value, self.clock.monotonic_seconds())
        if changed and status.jobs_observed_time is not None:
            for job in status.jobs:
                self.remember_job(f"node/{name}", job.job_id)

    def watched(self, node: str) -> Watched | None:
        """What was last heard of a node's report, and when."""
        at, health = self.heartbeats.last_heard(node), self.healths.get(node)
        return None if at is None or health is None else Watched(health.heartbeat_time, at)

    # ---------------------------------------------------------------- records
    def put_record(self, record: Remediation) -> None:
        self.records[record.metadata.name] = record
        self._by_node.setdefault(record.spec.node, set()).add(record.metadata.name)
        if record.metadata.name not in self.taken:
            self.outboxes.put(record)

    def drop_record(self, name: str) -> None:
        gone = self.records.pop(name, None)
        if gone is not None:
            self._by_node[gone.spec.node].discard(name)
            if not self._by_node[gone.spec.node]:
                del self._by_node[gone.spec.node]
        if name not in self.taken:
            self.outboxes.drop(name)

    @contextmanager
    def making(self, name: str) -> Generator[None, None, None]:
        """While our request is on its way; what it answers needs no reading again, as what a watch shows would."""
        self.in_making.add(name)
        try:
            yield
        finally:
            self.in_making.discard(name)

    def take(self, incident: Incident) -> None:
        """Its journal counts from now on."""
        self.taken[incident.name] = incident
        self.outboxes.put(incident.record)
        incident.journal.changed = self.outboxes.put

    def let_go(self, name: str) -> None:
        """The cache counts again."""
        incident = self.taken.pop(name, None)
        if incident is None:
            return
        incident.journal.changed = None
        if name in self.records:
            self.outboxes.put(self.records[name])
        else:
            self.outboxes.drop(name)

    def let_all_go(self) -> None:
        for name in list(self.taken):
            self.let_go(name)

    def newest(self, name: str) -> Remediation | None:
        taken = self.taken.get(name)
        return taken.record if taken is not None else self.records.get(name)

    def taken_on(self, node: str) -> list[Incident]:
        """Incidents in hand whose node this is."""
        return [self.taken[name] for name in self._by_node.get(node, ()) if name in self.taken]

    def open_incident(self, node: str) -> Remediation | None:
        """The open incident of a node, newest version."""
        for name in self._by_node.get(node, ()):
            record = self.newest(name)
            if record is not None and is_open(record) and not record.spec.dry_run:
                return record
        return None

    def of_node(self, node: str) -> list[Remediation]:
        """All records of a node, newest versions."""
        found = (self.newest(name) for name in self._by_node.get(node, ()))
        return [record for record in found if record is not None]

    def known_names(self) -> Collection[str]:
        return self.records.keys()
