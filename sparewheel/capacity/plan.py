"""What a pool needs next: pure, from its hosts, its inventory and the incidents that are open."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.gpu_pool import GpuPoolSpec
from sparewheel.capacity.claims import INCIDENT, ON_THE_WAY, PERSON, is_free, owner_of
from sparewheel.capacity.hosts import ANNOTATION_REPLACE_DONE
from sparewheel.remediation.decide.missing_node import lacks_node, left_alone


def pool_owner(pool: str) -> str:
    """The claim's owner when the pool itself, not an incident, moves a host."""
    return f"pool/{pool}"


@dataclass(frozen=True, slots=True)
class View:
    """What is known. ``incidents``: Node name of each open incident, by the owner that its claims carry."""

    pool: str
    spec: GpuPoolSpec
    hosts: Sequence[GpuHost]
    inventory: Collection[str]
    incidents: Mapping[str, str] = field(default_factory=dict[str, str])
    idle: Collection[str] = ()
    """Nodes that are known to run no worker, or an idle one; they leave first."""
    nodes: Collection[str] | None = None
    """Names of all Nodes there are; None where that was not looked at."""
    joining: Collection[str] = ()
    """Those among them that wait for their checks since they registered."""
    now: datetime | None = None


@dataclass(slots=True)
class Plan:
    """Hosts by name. ``have``: nodes that serve, or that an open incident is replacing."""

    have: int = 0
    bring_in: list[str] = field(default_factory=list[str])
    """Claimed by the pool and on their way."""
    claim: int = 0
    """How many more spares to claim."""
    put_back: list[str] = field(default_factory=list[str])
    """On their way, and no longer wanted."""
    drain: list[str] = field(default_factory=list[str])
    """Active hosts to take out now."""
    draining: list[str] = field(default_factory=list[str])
    replaced: list[str] = field(default_factory=list[str])
    """Those among ``drain`` and ``draining`` that a person asked to replace: they end in quarantine."""
    leave_later: list[str] = field(default_factory=list[str])
    """To be taken out once enough others serve."""
    free_claims: list[str] = field(default_factory=list[str])
    """Active hosts that a closed incident brought in."""
    missing: list[str] = field(default_factory=list[str])
    """Active hosts whose Node somebody removed: it may come back, or an incident is made of it."""
    lost: list[str] = field(default_factory=list[str])
    """Those of which nothing was made for long: they serve nobody."""
    back: list[str] = field(default_factory=list[str])
    """Active hosts whose Node was missing and is there again."""
    rejoined: list[str] = field(default_factory=list[str])
    """Active hosts whose Node was registered anew: they are checked before they serve again."""
    forget: list[str] = field(default_factory=list[str])
    """No longer in the inventory, and out of use."""
    warm_up: list[str] = field(default_factory=list[str])
    forget_replace: list[str] = field(default_factory=list[str])
    """Their ``replace`` was done and their name is off the list."""

    @property
    def settled(self) -> bool:
        busy = self.bring_in or self.claim or self.put_back or self.drain or self.draining or self.leave_later
        return not (busy or self.warm_up or self.lost or self.missing or self.back or self.rejoined)


def make_plan(view: View) -> Plan:
    """Never counts a host twice, never takes out one that an incident has to do with."""
    plan, owner = Plan(), pool_owner(view.pool)
    struck = {node: incident for incident, node in view.incidents.items()}
    served_by = {owner_of(host) for host in view.hosts if (owner_of(host) or "").startswith(INCIDENT)}
    leaving: list[GpuHost] = []
    steady: list[GpuHost] = []
    for host in view.hosts:
        name, holder, phase = host.spec.host, owner_of(host), host.status.phase
        incident = struck.get(host.status.node_name or "")
        if (holder or "").startswith(PERSON):
            continue  # a person's request is being done
        if holder == owner:
            (plan.draining if phase is HostPhase.DRAINING else plan.bring_in).append(name)
        elif holder is not None and holder in view.incidents:
            plan.have += 1  # a spare that an incident brings in, or has brought in
        elif phase is HostPhase.ACTIVE and incident is not None:
            plan.have += incident not in served_by  # the incident will put another in its place
        elif phase is HostPhase.ACTIVE and _serves_nobody(view, plan, host):
            pass  # its Node is missing, or registered anew
        elif phase is HostPhase.ACTIVE:
            if holder is not None:
                plan.free_claims.append(name)
            (leaving if _leaves(view, host) else steady).append(host)
        elif holder is not None and phase in ON_THE_WAY:
            plan.put_back.append(name)  # an incident that closed left it on the way
        elif name not in view.inventory:
            plan.forget.append(name)
        if _done(host) and name not in view.spec.replace:
            plan.forget_replace.append(name)
    plan.have += len(steady)
    _balance(view, plan, steady, leaving)
    plan.replaced = [name for name in (*plan.drain, *plan.draining) if name in view.spec.replace]
    _warm(view, plan)
    return plan


def _serves_nobody(view: View, plan: Plan, host: GpuHost) -> bool:
    """Its Node is not there, or was registered anew and waits for its checks. A missing one keeps its place a while."""
    name, node = host.spec.host, host.status.node_name
    if _missing(view, host):
        late = _late(view, host)
        (plan.lost if late else plan.missing).append(name)
        plan.have += not late
        return True
    if owner_of(host) is None and node in view.joining:
        plan.rejoined.append(name)
        plan.bring_in.append(name)
        return True
    if host.status.node_missing_since is not None:
        plan.back.append(name)
    return False


def _balance(view: View, plan: Plan, steady: list[GpuHost], leaving: list[GpuHost]) -> None:
    lacking = view.spec.size - plan.have - len(plan.bring_in)
    if lacking > 0:
        plan.claim = lacking
    elif lacking < 0:
        unwanted = sorted(plan.bring_in, reverse=True)[:-lacking]
        plan.put_back += unwanted
        plan.bring_in = [name for name in plan.bring_in if name not in unwanted]
        # A struck node counts as had, but serves nobody: what serves stays until there is more of it than declared.
        surplus = min(-lacking - len(unwanted), len(steady) - view.spec.size)
        if surplus > 0:
            order = sorted(steady, key=lambda host: host.spec.host, reverse=True)
            order.sort(key=lambda host: host.status.node_name not in view.idle)
            plan.drain += [host.spec.host for host in order[:surplus]]
    names = [host.spec.host for host in leaving]
    room = view.spec.max_concurrent_replacements - len(plan.draining)
    now = max(0, room) if plan.have >= view.spec.size else 0
    plan.drain += names[:now]
    plan.leave_later = names[now:]


def _warm(view: View, plan: Plan) -> None:
    if not view.spec.warm_spares:
        return
    free = [host for host in view.hosts if is_free(host) and host.spec.host in view.inventory]
    warm = [host for host in free if host.status.node_name is not None]
    cold = [host.spec.host for host in free if host.status.node_name is None and not host.status.reason]
    missing = view.spec.spares - len(warm)
    plan.warm_up = cold[: max(0, missing)] if not plan.claim else []


def _leaves(view: View, host: GpuHost) -> bool:
    gone = host.spec.host not in view.inventory
    return gone or (host.spec.host in view.spec.replace and not _done(host))


def _late(view: View, host: GpuHost) -> bool:
    since = host.status.node_missing_since
    return view.now is not None and since is not None and left_alone((view.now - since).total_seconds(), view.spec)


def _missing(view: View, host: GpuHost) -> bool:
    """Its Node is not among all that there are, and no incident (which would see to it) has to do with it."""
    return view.nodes is not None and lacks_node(host, view.nodes)


def _done(host: GpuHost) -> bool:
    annotations = host.metadata.annotations
    return ANNOTATION_REPLACE_DONE in annotations
