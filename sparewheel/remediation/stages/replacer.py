"""What the stages ask of capacity: one spare for one bad host. Every method is idempotent for the same owner."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.spare_test import SpareTest
from sparewheel.capacity.port import BadNode, Check, CheckResult, Choice, Proof, UnfitError

__all__ = ["BadNode", "Check", "CheckResult", "Choice", "Proof", "Replacer", "UnfitError"]


class Replacer(Protocol):
    """Raises CapacityError or KubeError; an error says nothing about the state that was asked for."""

    async def host_of(self, pool: GpuPool, node: str) -> str | None:
        """Name of the pool's host that serves as ``node``; None when it is not one of the pool's hosts."""
        ...

    async def other_healer(self, pool: GpuPool) -> str:
        """Who else heals the pool's nodes, in words; empty only where it is known that nobody does."""
        ...

    async def pool_hosts(self, pool: GpuPool) -> list[GpuHost]:
        """The pool's hosts, read afresh."""
        ...

    async def seat(self, pool: GpuPool, host: str) -> CheckResult:
        """Let the pool's workers run on a free spare that passes its checks; nothing else may."""
        ...

    async def note_test(self, pool: GpuPool, host: str, test: SpareTest | int) -> None:
        """Write down how the last Slurm test job on a spare that stands by went, or which one is under way."""
        ...

    async def quarantine_spare(self, pool: GpuPool, host: str, reason: str) -> None:
        """A spare that stands by is ill. One that somebody has claimed meanwhile is left to them."""
        ...

    async def unseat(self, pool: GpuPool, host: str) -> None:
        """No worker that isn't there yet may run on the spare."""
        ...

    async def claim_spare(self, pool: GpuPool, owner: str, near_host: str | None, refused: Collection[str]) -> Choice:
        """A spare host for ``owner``: the one it holds already, else the best free one."""
        ...

    def freed(self, pool: str) -> None:
        """A host of the pool was seen to be free; a search that found none is no longer believed."""
        ...

    async def would_claim(self, pool: GpuPool, near_host: str | None) -> Choice:
        """What ``claim_spare`` would answer to a new owner; claims nothing."""
        ...

    async def holds(self, pool: GpuPool, host: str, owner: str) -> bool:
        """Read afresh: is the host claimed by ``owner``?"""
        ...

    async def join_spare(
        self, pool: GpuPool, host: str, owner: str, near_host: str | None = None, *, takes_jobs: bool = False
    ) -> str:
        """Bring the host into the cluster, tainted; the Node's name. UnfitError: it can't take the place any more.

        ``takes_jobs``: jobs may have started on it since its claim; before that there was no process of one.
        """
        ...

    async def check_spare(self, pool: GpuPool, host: str, owner: str, *, takes_jobs: bool = False) -> CheckResult: ...

    async def admit(self, pool: GpuPool, host: str, owner: str) -> None:
        """Lift the taints; from now on the host takes the pool's work."""
        ...

    async def give_up(self, pool: GpuPool, host: str, owner: str, reason: str, *, quarantine: bool) -> None:
        """Let go of the claim; ``quarantine``: the host is not fit to serve as a spare."""
        ...

    async def another_free(self, pool: GpuPool, near_host: str | None, refused: Collection[str]) -> bool:
        """Is there a free spare that could take the place, and that gave no trouble last time?"""
        ...

    async def pass_over(self, pool: GpuPool, host: str, owner: str, reason: str) -> None:
        """Let go of a spare that doesn't answer: it is a spare again, and taken last."""
        ...

    async def settle(self, pool: GpuPool, owner: str) -> None:
        """What ``owner`` has admitted serves on, claimed by nobody."""
        ...

    async def prove_off(self, pool: GpuPool, host: str, *, power_off: bool) -> Proof: ...

    async def reboot(self, pool: GpuPool, host: str) -> None:
        """Have the host rebooted from outside; not idempotent. UnreachableError: it may have been done."""
        ...

    async def retire(self, pool: GpuPool, host: str, bad: BadNode, owner: str) -> None:
        """Out of the cluster (or proven off), Node object deleted by uid, host quarantined. Returns when it is so."""
        ...
