"""What a capacity backend can do to machines. Same protocol and contract tests for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class CapacityError(Exception):
    """A machine is not in the wanted state; the message names the machine, the cause and the next step."""


class UnfitError(CapacityError):
    """The spare can no longer take the bad host's place; the message says why. Another may.

    ``ill``: it has a fault, so it is no spare for anybody.
    """

    def __init__(self, message: str, *, ill: bool) -> None:
        super().__init__(message)
        self.ill = ill


class UnreachableError(CapacityError):
    """The machine or its power switch did not answer. It may later; nothing is known about its state."""


class Proof(StrEnum):
    """Answer of ``prove_off``."""

    OFF = "off"
    """The machine is proven off: nothing runs on it, force deletion is safe."""
    ON = "on"
    UNKNOWN = "unknown"
    """The backend cannot say, or the look-up failed. Never read as off."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """One machine as the backend lists it."""

    host: str
    provider_id: str
    instance_type: str = ""
    fabric_block: str = ""
    nvlink_domain: str = ""
    resources: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    effect: str = "NoSchedule"
    value: str = ""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """How a host shall appear in the cluster. It always joins tainted."""

    host: str
    node_name: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: Sequence[Taint] = ()


class Check(StrEnum):
    """Is a machine that joined fit to serve?"""

    PASSED = "passed"
    WAIT = "wait"
    REFUSED = "refused"
    """The machine is not fit: it is quarantined, and another is taken."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    check: Check
    why: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The spare that was claimed, or None."""

    host: str | None
    why: str = ""
    """Why this one; or, where there is none, what is in the way of those that stand by."""


@dataclass(frozen=True, slots=True)
class BadNode:
    """The incarnation of the node that is taken out."""

    node: str
    uid: str
    boot_id: str
    reason: str


class CapacityProvider(Protocol):
    """Every method is idempotent, bounded by the backend's own deadline, and raises CapacityError.

    A backend that works through the API server lets KubeError through as it is.
    """

    @property
    def keeps_node(self) -> bool:
        """True: the machine stays in the cluster when it leaves the pool, so its Node object is never deleted."""
        ...

    async def list_hosts(self) -> list[Inventory]:
        """All machines of the pool, whatever their state."""
        ...

    async def other_healer(self) -> str:
        """Who else changes the pool's machines, in words; empty only where it is known that nobody does."""
        ...

    async def find_more(self, lacking: int) -> str:
        """No machine of the pool is free: ask for ``lacking`` more where the backend can.

        What came of it, in words; empty where the backend has all it will ever have. They are listed once they are
        there.
        """
        ...

    async def power_on(self, host: str) -> None: ...

    async def join(self, request: JoinRequest) -> None:
        """Make the machine register as a Node with these labels and taints; returns when asked, not when Ready."""
        ...

    async def prove_off(self, host: str, *, power_off: bool) -> Proof:
        """Is the machine off? ``power_off`` True switches it off first where the backend can."""
        ...

    async def reboot(self, host: str) -> None:
        """From outside, whatever runs on it. The one method that is not idempotent; UnreachableError: perhaps done."""
        ...

    async def leave(self, host: str) -> None:
        """Take the machine out of the cluster: kubelet stopped, its pods ended."""
        ...

    async def quarantine(self, host: str, reason: str) -> None:
        """Keep the machine for repair, out of reach of work."""
        ...

    async def release(self, host: str) -> None:
        """Give the machine back to the spare capacity it came from."""
        ...
