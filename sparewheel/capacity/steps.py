"""The steps of one host's life. Each is idempotent, does one thing, and may be cut anywhere and run again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sparewheel.api.gpu_host import Claim, GpuHost, GpuHostStatus, HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import (
    LABEL_HOST,
    LABEL_POOL,
    LABEL_ROLE,
    ROLE_ACTIVE,
    ROLE_SPARE,
    TAINT_JOINING,
    TAINT_QUARANTINED,
    TAINT_SPARE,
)
from sparewheel.capacity.checks import Now, check_host
from sparewheel.capacity.claims import INCIDENT, as_owner, claim, let_go
from sparewheel.capacity.heard import Reports
from sparewheel.capacity.hosts import CAME_BACK, entering, read_host, swap_status, update_status
from sparewheel.capacity.leftovers import Leftovers
from sparewheel.capacity.lemons import lemon_of
from sparewheel.capacity.nodes import (
    boot_id_of,
    cordoning,
    delete_node,
    edit_node,
    find_node,
    is_ready,
    labels_of,
    placing,
)
from sparewheel.capacity.port import (
    CapacityError,
    CapacityProvider,
    CheckResult,
    JoinRequest,
    Proof,
    Taint,
    UnreachableError,
)
from sparewheel.clock import Clock
from sparewheel.kube.port import Json, Kube


def _always() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Site:
    """What every step works with. ``before_write`` raises when we may no longer act; it is asked before each effect."""

    kube: Kube
    provider: CapacityProvider
    pool: GpuPool
    clock: Clock
    reports: Reports | None
    """None: no agent's report is asked for."""
    before_write: Callable[[], None] = field(default=_always)

    @property
    def namespace(self) -> str:
        return self.pool.metadata.namespace or ""

    def labels(self, host: GpuHost, role: str) -> dict[str, str]:
        return {LABEL_POOL: self.pool.metadata.name, LABEL_HOST: host.spec.host, LABEL_ROLE: role}

    def in_our_hands(self, node: Json | None, host: GpuHost) -> bool:
        """Is the Node this host, in this pool?"""
        if node is None:
            return False
        labels = labels_of(node)
        return labels.get(LABEL_HOST) == host.spec.host and labels.get(LABEL_POOL) == self.pool.metadata.name


async def join(site: Site, host: GpuHost, owner: str) -> GpuHost:
    """Bring a claimed host into the cluster, tainted. A warm spare is there already and only changes its taint."""
    name = host.spec.host
    warm = host.status.phase is HostPhase.SPARE and host.status.node_name is not None
    site.before_write()
    host = await as_owner(site.kube, site.namespace, name, owner, _joining(site, name))
    await place(site, host, TAINT_JOINING, trust_node=warm)
    return await as_owner(site.kube, site.namespace, name, owner, entering(HostPhase.CHECKING, site.clock))


def _joining(site: Site, node: str) -> Callable[[GpuHostStatus], None]:
    enter = entering(HostPhase.JOINING, site.clock)

    def change(status: GpuHostStatus) -> None:
        enter(status)
        status.node_name = node

    return change


async def place(site: Site, host: GpuHost, taint: str, *, trust_node: bool) -> None:
    """The host's Node is there or will be, with our labels and one taint of ours. ``trust_node``: it has joined before.

    A kubelet gives labels and taints when it registers; a Node object that exists keeps its own, so they are set here.
    """
    name, labels = host.spec.host, site.labels(host, ROLE_SPARE)
    node = await find_node(site.kube, name)
    if not (trust_node and node is not None and site.in_our_hands(node, host) and is_ready(node)):
        site.before_write()
        await site.provider.power_on(name)
        site.before_write()
        await site.provider.join(JoinRequest(name, name, labels, [Taint(taint)]))
        node = await find_node(site.kube, name)
    if node is not None:
        site.before_write()
        remove = tuple(key for key in (TAINT_SPARE, TAINT_JOINING, TAINT_QUARANTINED) if key != taint)
        await edit_node(site.kube, name, placing(labels, [Taint(taint)], remove))


async def check(site: Site, host: GpuHost, *, repaired: bool = False, takes_jobs: bool = False) -> CheckResult:
    """``takes_jobs``: jobs may run there by now; as they may where an active host's Node was registered anew."""
    now, jobs = Now(site.clock.now(), site.clock.monotonic_seconds()), takes_jobs or host.status.reason == CAME_BACK
    return await check_host(site.kube, site.pool, host, now, site.reports, repaired=repaired, takes_jobs=jobs)


async def admit(site: Site, host: GpuHost, owner: str, *, keep_claim: bool) -> GpuHost:
    """Lift the taints and mark the host Active. ``keep_claim``: an incident must still see that it is its spare."""
    name = host.status.node_name or host.spec.host
    lift = placing(site.labels(host, ROLE_ACTIVE), (), (TAINT_JOINING, TAINT_SPARE, TAINT_QUARANTINED))
    await as_owner(site.kube, site.namespace, host.spec.host, owner, lambda _: None)  # still ours, read afresh

    def change(node: Json) -> Json | None:
        boot = boot_id_of(node)
        if boot and boot == host.status.refused_boot_id:
            raise CapacityError(f"node {name} is the boot that was quarantined; it is not admitted")
        return lift(node)

    site.before_write()
    node = await edit_node(site.kube, name, change)
    enter = entering(HostPhase.ACTIVE, site.clock)

    def active(status: GpuHostStatus) -> None:
        enter(status)
        status.node_name, status.boot_id = name, boot_id_of(node) or None
        status.checked_at = site.clock.now()
        status.claim = status.claim if keep_claim else None

    return await as_owner(site.kube, site.namespace, host.spec.host, owner, active)


async def begin_drain(site: Site, host: GpuHost, owner: str, purpose: str) -> GpuHost:
    """Claim an active host and cordon its Node; Slinky's operator then drains it in Slurm."""
    site.before_write()
    host = await claim(
        site.kube,
        site.namespace,
        host.spec.host,
        Claim(owner=owner, purpose=purpose, time=site.clock.now()),
        lambda now: now.status.phase is HostPhase.ACTIVE,
        entering(HostPhase.DRAINING, site.clock, purpose),
    )
    name = host.status.node_name or host.spec.host
    if await find_node(site.kube, name) is not None:
        site.before_write()
        await edit_node(site.kube, name, cordoning)
    return host


async def go_out(site: Site, host: GpuHost, *, power_off: bool) -> None:
    """Out of the cluster, or proven off; then its Node object goes, where the machine doesn't stay in the cluster.

    ``power_off``: a machine that can't be told to leave is switched off.
    """
    name = host.spec.host
    if await _gone(site, host):
        return
    site.before_write()
    try:
        await site.provider.leave(name)
    except CapacityError as error:
        if site.provider.keeps_node or await site.provider.prove_off(name, power_off=power_off) is not Proof.OFF:
            kind = UnreachableError if isinstance(error, UnreachableError) else CapacityError
            raise kind(f"host {name} is neither out of the cluster nor proven off: {error}") from error
    node_name = host.status.node_name or name
    if not site.provider.keeps_node and site.in_our_hands(await find_node(site.kube, node_name), host):
        site.before_write()
        await delete_node(site.kube, node_name)


async def _gone(site: Site, host: GpuHost) -> bool:
    """A host that is nothing but its Node, which somebody removed: it is out, and nothing is left to be marked."""
    return site.provider.keeps_node and await find_node(site.kube, host.status.node_name or host.spec.host) is None


def becomes_spare(site: Site, reason: str = "") -> Callable[[GpuHostStatus], None]:
    """A change into Spare; ``reason``: the trouble it gave, so that others are tried first."""
    enter = entering(HostPhase.SPARE, site.clock, reason)

    def change(status: GpuHostStatus) -> None:
        enter(status)
        status.node_name = status.node_missing_since = status.test_job_id = None

    return change


async def miss_node(site: Site, host: GpuHost, *, missing: bool) -> GpuHost:
    """Mark since when an active host's Node is not there, or that it is there again."""
    now = site.clock.now()

    def mark(status: GpuHostStatus) -> None:
        status.node_missing_since = (status.node_missing_since or now) if missing else None

    site.before_write()
    return await swap_status(site.kube, host, mark)


async def check_again(site: Site, host: GpuHost, owner: str) -> GpuHost:
    """An active host whose Node was registered anew, tainted: claimed, and admitted once it passes its checks."""
    enter = entering(HostPhase.CHECKING, site.clock, CAME_BACK)

    def checking(status: GpuHostStatus) -> None:
        enter(status)
        status.node_missing_since = None

    site.before_write()
    ours = Claim(owner=owner, purpose="checks", time=site.clock.now())
    return await claim(
        site.kube, site.namespace, host.spec.host, ours, lambda now: now.status.phase is HostPhase.ACTIVE, checking
    )


async def lose_node(site: Site, host: GpuHost) -> GpuHost:
    """An active host whose Node somebody removed: a spare, taken last, and only after a join and all checks."""
    change = becomes_spare(site, "its Node was removed while it served")

    def both(status: GpuHostStatus) -> None:
        change(status)
        status.claim = None

    site.before_write()
    return await swap_status(site.kube, host, both)


async def back_to_spare(site: Site, host: GpuHost, owner: str, reason: str = "") -> GpuHost:
    """Take a claimed host out and put it back among the spares."""
    await go_out(site, host, power_off=False)
    host = await read_host(site.kube, site.namespace, host.spec.host)
    reason = reason or await Leftovers(site.kube, site.clock).on(host)
    return await let_go(site.kube, host, owner, becomes_spare(site, reason))


async def quarantine(site: Site, host: GpuHost, owner: str, reason: str) -> GpuHost:
    """A claimed host that is not fit: out of the cluster where it can be, Quarantined in any case."""
    node = await find_node(site.kube, host.status.node_name or host.spec.host)
    try:
        await go_out(site, host, power_off=False)
    except CapacityError as error:  # it never lost its joining taint, so it takes no work where it is
        reason = f"{reason}; still in the cluster: {error}"
    if not await _gone(site, host):
        await site.provider.quarantine(host.spec.host, reason)
    host = await read_host(site.kube, site.namespace, host.spec.host)
    incident = owner.removeprefix(INCIDENT) if owner.startswith(INCIDENT) else ""
    lemon = await lemon_of(site.kube, site.namespace, host, site.clock.now(), this_one=incident)
    change = quarantined(site, boot_id_of(node) if node is not None else "", reason, lemon)
    return await let_go(site.kube, host, owner, change)


def quarantined(site: Site, boot_id: str, reason: str, lemon: str = "") -> Callable[[GpuHostStatus], None]:
    """A change into Quarantined that refuses this boot for good. ``lemon``: why it stays out until it is cleared."""
    reason = f"{lemon}; {reason}" if lemon else reason
    enter = entering(HostPhase.QUARANTINED, site.clock, reason)

    def change(status: GpuHostStatus) -> None:
        enter(status)
        if status.quarantined_at is None:
            status.quarantined_at, status.quarantine_reason = site.clock.now(), reason
        status.lemon = status.lemon or bool(lemon)
        status.refused_boot_id = boot_id or status.refused_boot_id
        status.node_name = status.node_name if site.provider.keeps_node else None
        status.node_missing_since = status.test_job_id = None

    return change


async def retire(site: Site, host: GpuHost, boot_id: str, reason: str) -> GpuHost:
    """Take a bad host out for good: left or proven off, Node object gone, Quarantined with its boot refused."""
    name = host.spec.host
    if host.status.phase is HostPhase.QUARANTINED and host.status.refused_boot_id == boot_id:
        return host
    await go_out(site, host, power_off=True)
    if not await _gone(site, host):
        site.before_write()
        await site.provider.quarantine(name, reason)
    lemon = await lemon_of(site.kube, site.namespace, host, site.clock.now())
    change = quarantined(site, boot_id, reason, lemon)

    def both(status: GpuHostStatus) -> None:
        change(status)
        status.claim = None

    return await update_status(site.kube, site.namespace, name, lambda _: both)
