"""What a stage works with: the ports, the journal, and what must be true before something irreversible is done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import CLAIM_OF_INCIDENT, POLICY_NAME
from sparewheel.api.remediation import Outcome, Remediation
from sparewheel.api.remediation_policy import RemediationPolicy, RemediationPolicySpec, RemediationPolicyStatus
from sparewheel.clock import Clock
from sparewheel.kube.pace import URGENCY, Urgency
from sparewheel.kube.port import NODE, POD, REMEDIATION_POLICY, Json, Kube, KubeError, NotFoundError
from sparewheel.notify.port import Notifier
from sparewheel.remediation.decide.anew import about
from sparewheel.remediation.decide.cancel import asked_to_cancel, uncordoned
from sparewheel.remediation.decide.deliveries import enqueue
from sparewheel.remediation.decide.events import EVENT_VETO_OVERDUE, kind_of, severity_of
from sparewheel.remediation.decide.observations import Gone, HealthView, NodeView, PodView, Unknown
from sparewheel.remediation.decide.outboxes import Outboxes
from sparewheel.remediation.decide.record import Change, is_open
from sparewheel.remediation.decide.routing import routes_for
from sparewheel.remediation.decide.times import latest
from sparewheel.remediation.decide.veto import Sight, Verdict, veto_of
from sparewheel.remediation.stages.journal import Journal
from sparewheel.remediation.stages.replacer import Replacer
from sparewheel.remediation.stages.views import node_view, pod_view
from sparewheel.slurm.looks import Looks
from sparewheel.slurm.port import Slurm
from sparewheel.slurm.shared import Shared

log = logging.getLogger("sparewheel.remediation")
MANY_INCIDENTS = 4


class PreconditionError(Exception):
    """Something that must hold before an irreversible step no longer does; the track looks again at the whole."""


class NotLeadingError(Exception):
    """Another controller leads now; this one writes nothing more."""


class Fleet(Protocol):
    """What is known beyond one incident."""

    async def pool(self, name: str) -> GpuPool:
        """Raises KubeError."""
        ...

    async def policy(self) -> RemediationPolicySpec: ...

    def breaker(self) -> RemediationPolicyStatus:
        """As last seen."""
        ...

    def gpu_nodes(self) -> int:
        """GPU nodes that take work, in all pools: what percent are of."""
        ...

    async def incidents(self) -> Sequence[Remediation]:
        """All records, the newest versions."""
        ...

    def in_hand(self) -> int:
        """How many incidents this controller works on."""
        ...

    async def certain_outboxes(self) -> Outboxes:
        """Of all records, and none of those that somebody works on is older than another controller's last write."""
        ...

    def health(self, node: str, since_monotonic: float | None) -> HealthView | None:
        """The agent's last report; ``since_monotonic``: when this controller first saw the node fenced."""
        ...

    def places(self) -> Mapping[str, str]:
        """Slurm node name to the Node that its worker runs on, as last seen."""
        ...

    def node_body(self, name: str) -> Json | None:
        """The Node as last seen, with what a NodeView needs. None is no proof of absence."""
        ...

    def remembered_jobs(self, node: str, slurm_node: str, within_seconds: float) -> Mapping[int, frozenset[str]]:
        """Ids of jobs seen alive on the node within this time, and the Slurm nodes that each ran on, where known."""
        ...


async def _nobody_else_drives(pool: str) -> str:
    _ = pool
    return ""


@dataclass(slots=True)
class Ports:
    kube: Kube
    slurm: Slurm
    replacer: Replacer
    notifier: Notifier
    clock: Clock
    fleet: Fleet
    namespace: str
    leading: Callable[[], bool] = lambda: True
    drive: Callable[[str], Awaitable[str]] = _nobody_else_drives
    """Asks for the pool's lease; empty when we hold it, else what is waited for."""
    fence_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One fence decision at a time: the breaker counts what the one before journalled. Held for no request
    but those by which the breaker is opened and told: two hundred fences would wait for each other's."""
    breaker_writes: int = 0
    """How often this controller has opened the breaker; what was read before the last one is old."""
    claim_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One claim at a time: the budget counts what the one before journalled."""
    group_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One message is decided on at a time: it carries what no other one carries."""
    jitter: Callable[[], float] = lambda: 0.0
    """0 to 1: spreads what is tried again."""
    healers: dict[str, str] = field(default_factory=dict[str, str])
    """Who else was last known to heal a pool's nodes, by pool; "" for nobody, missing where it was never told."""
    looks: Looks = field(init=False)
    breaker: Shared[RemediationPolicyStatus] = field(init=False)
    """Read afresh, once for all who ask at the same time; closed where there is no policy. Raises KubeError."""

    def __post_init__(self) -> None:
        self.looks = Looks(self.slurm)
        self.breaker = Shared(self._read_breaker, rest=0.0)

    async def _read_breaker(self) -> RemediationPolicyStatus:
        URGENCY.set(Urgency.FENCE)  # in a task of its own: fences wait for it, whoever asked first
        try:
            body = await self.kube.get(REMEDIATION_POLICY, POLICY_NAME, self.namespace)
        except NotFoundError:
            return RemediationPolicyStatus()
        return RemediationPolicy.from_wire(body).status


@dataclass(slots=True)
class Incident:
    ports: Ports
    journal: Journal
    taken_monotonic: float = 0.0
    """When this controller began to work on the incident."""
    fenced_monotonic: float | None = None
    """When this controller first saw the incident fenced; reports heard after it are of the fenced node."""
    hold_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """The hold is changed and journalled by one track at a time: what was lifted is never put again by another."""
    test_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """The spare's test job is asked for by one track at a time."""
    held: frozenset[str] = frozenset()
    """Slurm nodes that this controller last put behind the hold."""
    held_monotonic: float | None = None
    """When it did."""
    unmet: str = ""
    """A precondition that has not held for a while, in words; shown instead of what the step itself waits for."""
    rung_done: tuple[str, float] | None = None
    """When this controller first saw that a rung of the ladder was done, by the rung's id."""
    proof_asked: float | None = None
    forced: set[str] = field(default_factory=set[str])
    """Uids of pods deleted by force. One that stays (a finalizer) is asked again, but not at once."""

    @property
    def record(self) -> Remediation:
        return self.journal.record

    @property
    def name(self) -> str:
        return self.journal.name

    @property
    def owner(self) -> str:
        """The claim's idempotency key."""
        return f"{CLAIM_OF_INCIDENT}{self.name}"

    def now(self) -> datetime:
        """Never before what the record says already."""
        return latest(self.record.status, self.ports.clock.now())

    async def update(self, *changes: Change) -> bool:
        """Journal; refused when this controller no longer leads."""
        self.lead()
        return await self.journal.update(*changes)

    def stage(self, *changes: Change) -> None:
        """Journal with the next update. Never for what a side effect that comes before it depends on."""
        self.journal.stage(*changes)

    def lead(self) -> None:
        if not self.ports.leading():
            raise NotLeadingError(f"{self.name}: another controller leads now")

    async def pool(self) -> GpuPool:
        return await self.ports.fleet.pool(self.record.spec.pool)

    def crowded(self) -> bool:
        """Are so many in hand that they look at Slurm together, once per interval? One alone waits for no other."""
        return self.ports.fleet.in_hand() > MANY_INCIDENTS

    async def routes(self, event: str, *, outcome: Outcome | None = None, action_needed: bool = False) -> list[str]:
        """Routes that tell the event; ``outcome``: the one that the incident is about to have."""
        kind = kind_of(event, outcome or self.record.status.outcome)
        severity = severity_of(kind, action_needed=action_needed, overdue=event == EVENT_VETO_OVERDUE)
        return routes_for(await self.ports.fleet.policy(), self.record.spec.pool, kind, severity)

    async def put_breaker(self, status: RemediationPolicyStatus) -> None:
        """Without a policy there is nowhere to keep it open: each fence then counts for itself."""
        self.lead()
        patch = {"status": status.model_dump(mode="json", by_alias=True, exclude={"notify_test"})}
        try:
            await self.ports.kube.merge_patch(
                REMEDIATION_POLICY, POLICY_NAME, patch, self.ports.namespace, subresource="status"
            )
        except NotFoundError:
            log.warning("%s: there is no RemediationPolicy %s to keep the breaker open", self.name, POLICY_NAME)
        finally:
            self.ports.breaker_writes += 1  # also where it is not known whether it took effect

    async def tell(self, event: str) -> None:
        """Put an event into the outbox; the same event of the same incident is told once, ever."""
        await self.update(enqueue(self.name, event, await self.routes(event), self.now()))

    # ---------------------------------------------------------------- looking
    async def see_node(self) -> NodeView | Gone | Unknown:
        try:
            return node_view(await self.ports.kube.get(NODE, self.record.spec.node))
        except NotFoundError:
            return Gone()
        except KubeError as error:
            return Unknown(str(error))

    def known_node(self) -> NodeView | None:
        """The Node as last seen, while nothing was done to it: the first write to it is a compare-and-swap."""
        if self.record.status.owned.cordon:
            return None
        body = self.ports.fleet.node_body(self.record.spec.node)
        node = None if body is None else node_view(body)
        return node if node is not None and node.uid == self.record.spec.node_uid else None

    async def see_pods(self) -> tuple[PodView, ...] | Unknown:
        try:
            found = await self.ports.kube.list(POD, field_selector=f"spec.nodeName={self.record.spec.node}")
        except KubeError as error:
            return Unknown(str(error))
        return tuple(pod_view(body) for body in found.items)

    async def see_veto(self) -> Verdict:
        """What holds the node, everything read afresh. A node that is gone has no veto of its own any more."""
        pods, node = await self.see_pods(), await self.see_node()
        rule = (await self.ports.fleet.policy()).veto
        return veto_of(self.record, Sight(pods, node, (await self.pool()).spec, self.now(), rule))

    def places(self) -> Mapping[str, str]:
        """Slurm node name to Node, of all workers; for people to read."""
        return self.ports.fleet.places()

    # ---------------------------------------------------------------- preconditions
    async def recheck(self, *, spare: bool = True, node: bool = True) -> None:
        """Read again, right before a step that can't be taken back: leader, record, same node, no veto, claim."""
        self.lead()
        await self.journal.refresh()
        if not is_open(self.record):
            raise PreconditionError(f"{self.name} is closed")
        wish = asked_to_cancel(self.record)
        if wish is not None:
            raise PreconditionError(f"{self.name} is called off {wish.words}")
        if node:
            await self._recheck_node()
        veto = await self.see_veto()
        if veto.reason:
            raise PreconditionError(f"{self.name} waits for {veto.reason}")
        if spare:
            await self._recheck_spare()
        self.lead()

    async def _recheck_node(self) -> None:
        seen = await self.see_node()
        if not isinstance(seen, NodeView):
            raise PreconditionError(f"{self.name}: Node {self.record.spec.node} is not there or can't be read")
        if not about(self.record, seen):
            raise PreconditionError(f"{self.name}: Node {seen.name} is another incarnation now")
        if uncordoned(self.record, seen) is not None:
            raise PreconditionError(f"{self.name}: Node {seen.name} was uncordoned")

    async def _recheck_spare(self) -> None:
        host = self.record.status.replacement.spare_host
        if host is None:
            raise PreconditionError(f"{self.name} holds no spare")
        if self.record.status.replacement.admitted_at is not None:
            return  # it serves, or whoever took it out since has replaced it
        if not await self.ports.replacer.holds(await self.pool(), host, self.owner):
            raise PreconditionError(f"{self.name} no longer holds spare {host}")


Act = Callable[[Incident], Awaitable[bool]]
"""A stage's act: True when it changed something and the track should look again at once."""
