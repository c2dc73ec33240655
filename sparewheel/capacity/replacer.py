"""One spare for one bad host: what the remediation's stages call. Idempotent for the same owner."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.gpu_pool import CrusoeBackend, GpuPool
from sparewheel.api.spare_test import SpareTest
from sparewheel.capacity import steps
from sparewheel.capacity.checks import trouble_of
from sparewheel.capacity.choose import (
    Need,
    as_listed,
    need_of,
    none_fits,
    reason_of,
    spares_in_order,
    why_not,
    why_unfit,
)
from sparewheel.capacity.claims import ClaimedError, claim_first, is_free, let_go, owner_of
from sparewheel.capacity.claims import holds as holds_claim
from sparewheel.capacity.heard import Reports
from sparewheel.capacity.hosts import entering, hosts_of, read_host, sync_hosts, update_status
from sparewheel.capacity.leftovers import Leftovers
from sparewheel.capacity.nodes import edit_node, nodes_of, seating, unseating
from sparewheel.capacity.port import (
    BadNode,
    CapacityError,
    Check,
    CheckResult,
    Choice,
    Inventory,
    Proof,
    UnfitError,
)
from sparewheel.capacity.providers import ProviderOf
from sparewheel.capacity.spare_checks import quarantine_standing_by, tested
from sparewheel.capacity.steps import Site
from sparewheel.capacity.vain import VainSearches
from sparewheel.clock import Clock
from sparewheel.kube.port import Kube, NotFoundError

BEFORE_CHECKS = frozenset({HostPhase.SPARE, HostPhase.JOINING})


@dataclass(frozen=True, slots=True)
class _Look:
    """A pool's hosts as they are now, and what one needs to take a place."""

    hosts: list[GpuHost]
    listed: Mapping[str, Inventory]
    candidates: list[GpuHost]
    """Those in the inventory, with what it says of them."""
    need: Need


@dataclass(slots=True)
class PoolReplacer:
    """Implements ``sparewheel.remediation.stages.replacer.Replacer``. Raises CapacityError or KubeError."""

    kube: Kube
    clock: Clock
    provider_of: ProviderOf
    reports: Reports = field(default_factory=Reports)
    """Kept across calls."""
    vain: VainSearches = field(init=False)

    def __post_init__(self) -> None:
        self.vain = VainSearches(self.clock)

    async def host_of(self, pool: GpuPool, node: str) -> str | None:
        """Name of the pool's host that serves as ``node``. Mostly they bear the same name: that one is asked first."""
        try:
            same = await read_host(self.kube, pool.metadata.namespace or "", node)
        except NotFoundError:
            pass
        else:
            if same.spec.pool == pool.metadata.name and same.status.node_name == node:
                return same.spec.host
        hosts = await hosts_of(self.kube, pool.metadata.namespace or "", pool.metadata.name)
        return next((host.spec.host for host in hosts if host.status.node_name == node), None)

    async def other_healer(self, pool: GpuPool) -> str:
        """Who else heals the pool's nodes; empty only where it is known that nobody does.

        Only a cloud has a healer of its own. Of the others not even a key is read: a fence waits for this.
        """
        if not isinstance(pool.spec.backend, CrusoeBackend):
            return ""
        return await (await self._site(pool)).provider.other_healer()

    async def pool_hosts(self, pool: GpuPool) -> list[GpuHost]:
        """The pool's hosts, read afresh."""
        return await hosts_of(self.kube, pool.metadata.namespace or "", pool.metadata.name)

    async def seat(self, pool: GpuPool, host: str) -> CheckResult:
        """Let the pool's workers run on a free spare that passes its checks; nothing else may."""
        site = await self._site(pool)
        found = await read_host(self.kube, site.namespace, host)
        if not is_free(found) or found.status.node_name is None:
            return CheckResult(Check.WAIT, f"{host} to be a free spare in the cluster")
        result = await steps.check(site, found)
        if result.check is Check.PASSED:
            await edit_node(self.kube, found.status.node_name, seating)
        return result

    async def note_test(self, pool: GpuPool, host: str, test: SpareTest | int) -> None:
        await update_status(self.kube, pool.metadata.namespace or "", host, lambda _: tested(test))

    async def quarantine_spare(self, pool: GpuPool, host: str, reason: str) -> None:
        """A spare that stands by is ill. One that somebody has claimed meanwhile is left to them."""
        site = await self._site(pool)
        await quarantine_standing_by(site, await read_host(self.kube, site.namespace, host), reason)

    async def unseat(self, pool: GpuPool, host: str) -> None:
        """No worker that isn't there yet may run on the spare."""
        found = await read_host(self.kube, pool.metadata.namespace or "", host)
        if found.status.node_name is not None:
            await edit_node(self.kube, found.status.node_name, unseating)

    async def claim_spare(self, pool: GpuPool, owner: str, near_host: str | None, refused: Collection[str]) -> Choice:
        """The host that ``owner`` holds already, else the best free one that it gets, and why that one.

        Where a look has found that nothing of the pool is free, the next hundred who ask are told the same for a while.
        """
        vain = self.vain.of(pool, owner)
        if vain is not None:
            return Choice(None, vain)
        site, now, began = await self._site(pool), self.clock.now(), self.clock.monotonic_seconds()
        look = await self._look(site, near_host)
        if await self._list_new(site, look):
            look = await self._look(site, near_host)
        need, listed = look.need, look.listed

        def fits(host: GpuHost) -> bool:
            return host.spec.host in listed and not why_not(as_listed(host, listed), need, refused)

        def purpose(host: GpuHost) -> str:
            return f"takes the place of {near_host or 'a bad host'}: {reason_of(host, need, now)}"

        left = Leftovers(self.kube, self.clock)
        order = left.without(spares_in_order(look.candidates, need, now=now, refused=refused))
        host = await claim_first(self.kube, site.namespace, look.hosts, order, owner, purpose, self.clock, fits)
        if host is None or host.status.claim is None:
            more = await site.provider.find_more(1)
            why = "; ".join(filter(None, (more, none_fits(look.candidates, need, refused, left.found))))
            fit_for_work = [one for one in look.hosts if not left.found.get(one.spec.host)]
            self.vain.note(pool, fit_for_work, why, began)
            return Choice(None, why)
        return Choice(host.spec.host, host.status.claim.purpose.partition(": ")[2])

    def freed(self, pool: str) -> None:
        """A host of the pool was seen to be free: whoever searches looks for himself again."""
        self.vain.forget(pool)

    async def would_claim(self, pool: GpuPool, near_host: str | None) -> Choice:
        """What ``claim_spare`` would answer to a new owner; claims nothing."""
        now, look = self.clock.now(), await self._look(await self._site(pool), near_host)
        order, left = spares_in_order(look.candidates, look.need, now=now), Leftovers(self.kube, self.clock)
        first = await anext(left.without(order), None)
        if first is None:
            return Choice(None, none_fits(look.candidates, look.need, left_over=left.found))
        return Choice(first.spec.host, reason_of(first, look.need, now))

    async def holds(self, pool: GpuPool, host: str, owner: str) -> bool:
        """Read afresh: is the host claimed by ``owner``?"""
        return await holds_claim(self.kube, pool.metadata.namespace or "", host, owner)

    async def join_spare(
        self, pool: GpuPool, host: str, owner: str, near_host: str | None = None, *, takes_jobs: bool = False
    ) -> str:
        """Bring the host into the cluster, tainted; the Node's name. UnfitError when it can't take the place now."""
        site, found = await self._held(pool, host, owner)
        if found.status.phase is HostPhase.SPARE:
            await self._still_fit(site, found, near_host, takes_jobs=takes_jobs)
        if found.status.phase in BEFORE_CHECKS:
            found = await steps.join(site, found, owner)
        return found.status.node_name or found.spec.host

    async def check_spare(self, pool: GpuPool, host: str, owner: str, *, takes_jobs: bool = False) -> CheckResult:
        site, found = await self._held(pool, host, owner)
        return await steps.check(site, found, takes_jobs=takes_jobs)

    async def admit(self, pool: GpuPool, host: str, owner: str) -> None:
        """Lift the taints: the host takes the pool's work now. The claim stays until the bad host is retired."""
        site, found = await self._held(pool, host, owner)
        await steps.admit(site, found, owner, keep_claim=True)

    async def give_up(self, pool: GpuPool, host: str, owner: str, reason: str, *, quarantine: bool) -> None:
        """Let go of the claim; ``quarantine``: the host is not fit to serve as a spare."""
        site = await self._site(pool)
        found = await read_host(self.kube, site.namespace, host)
        if owner_of(found) != owner:
            return
        if quarantine:
            await steps.quarantine(site, found, owner, reason)
        elif found.status.phase is HostPhase.SPARE:
            await let_go(self.kube, found, owner, entering(HostPhase.SPARE, self.clock, found.status.reason))
        else:
            await steps.back_to_spare(site, found, owner)

    async def another_free(self, pool: GpuPool, near_host: str | None, refused: Collection[str]) -> bool:
        """Is there a free spare that could take the place, and that gave no trouble last time?"""
        look = await self._look(await self._site(pool), near_host)
        order = spares_in_order(look.candidates, look.need, now=self.clock.now(), refused=refused)
        calm = [host for host in order if not host.status.reason]
        return await anext(Leftovers(self.kube, self.clock).without(calm), None) is not None

    async def pass_over(self, pool: GpuPool, host: str, owner: str, reason: str) -> None:
        """Let go of a spare that doesn't answer: it is a spare again, and taken last. It can only come in tainted."""
        site = await self._site(pool)
        found = await read_host(self.kube, site.namespace, host)
        if owner_of(found) == owner:
            await let_go(self.kube, found, owner, steps.becomes_spare(site, reason))

    async def prove_off(self, pool: GpuPool, host: str, *, power_off: bool) -> Proof:
        return await (await self._site(pool)).provider.prove_off(host, power_off=power_off)

    async def reboot(self, pool: GpuPool, host: str) -> None:
        """Have the host rebooted from outside. UnreachableError: it may have been done."""
        await (await self._site(pool)).provider.reboot(host)

    async def retire(self, pool: GpuPool, host: str, bad: BadNode, owner: str) -> None:
        """Out of the cluster (or proven off), Node object deleted, host quarantined. Returns when it is so."""
        site = await self._site(pool)
        await steps.retire(site, await self._bad_host(site, host), bad.boot_id, bad.reason)
        await self.settle(pool, owner)

    async def settle(self, pool: GpuPool, owner: str) -> None:
        """What ``owner`` has admitted serves on, claimed by nobody."""
        for spare in await self.pool_hosts(pool):
            if owner_of(spare) == owner and spare.status.phase is HostPhase.ACTIVE:
                await let_go(self.kube, spare, owner, lambda _: None)

    async def _bad_host(self, site: Site, name: str) -> GpuHost:
        """A GpuHost that somebody deleted meanwhile is made again: else nobody would know that the machine is bad."""
        try:
            return await read_host(self.kube, site.namespace, name)
        except NotFoundError:
            await self._list_new(site, await self._look(site, None))
        try:
            return await read_host(self.kube, site.namespace, name)
        except NotFoundError as error:
            pool = site.pool.metadata.name
            raise CapacityError(
                f"GpuHost {name} was deleted, and the inventory of pool {pool} doesn't list {name} any more; "
                "list it again until it is out of the cluster"
            ) from error

    async def _look(self, site: Site, near_host: str | None) -> _Look:
        listed = {machine.host: machine for machine in await site.provider.list_hosts()}
        hosts = await hosts_of(self.kube, site.namespace, site.pool.metadata.name)
        need = need_of(site.pool, next((host for host in hosts if host.spec.host == near_host), None))
        return _Look(hosts, listed, [as_listed(host, listed) for host in hosts if host.spec.host in listed], need)

    async def _list_new(self, site: Site, look: _Look) -> bool:
        """Machines that the inventory has and the pool doesn't: new ones, and repaired ones given back. True: some.

        The pool's own look is not made while an incident of the pool is open, which may wait for just these.
        """
        known = {host.spec.host for host in look.hosts}
        new = [machine for name, machine in look.listed.items() if name not in known]
        if new:
            nodes = await nodes_of(self.kube, site.pool.metadata.name, {machine.host for machine in new})
            await sync_hosts(self.kube, site.pool, new, nodes, self.clock, site.before_write)
        return bool(new)

    async def _still_fit(self, site: Site, found: GpuHost, near_host: str | None, *, takes_jobs: bool) -> None:
        """Looked at afresh, right before the claim is used: a spare may have fallen ill while it stood by."""
        listed = {machine.host: machine for machine in await site.provider.list_hosts()}
        hosts = await hosts_of(self.kube, site.namespace, site.pool.metadata.name)
        near = next((host for host in hosts if host.spec.host == near_host), None)
        unfit = why_unfit(as_listed(found, listed), need_of(site.pool, near))
        ill = await trouble_of(site.kube, found, self.clock.monotonic_seconds(), self.reports)
        unfit = unfit or ("" if takes_jobs else await Leftovers(self.kube, self.clock).on(found))
        if ill or unfit:
            raise UnfitError(f"spare {found.spec.host}: {ill or unfit}", ill=bool(ill))

    async def _held(self, pool: GpuPool, host: str, owner: str) -> tuple[Site, GpuHost]:
        site = await self._site(pool)
        found = await read_host(self.kube, site.namespace, host)
        if owner_of(found) != owner:
            raise ClaimedError(f"host {host} is not held by {owner} but by {owner_of(found) or 'nobody'}; nothing done")
        return site, found

    async def _site(self, pool: GpuPool) -> Site:
        """The backend is made anew for each call: its keys may have been renewed."""
        return Site(self.kube, await self.provider_of(pool), pool, self.clock, self.reports)
