"""Claims: whatever owners and outages do, a host has one owner, and nobody believes otherwise."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_host import GpuHost, GpuHostSpec, HostPhase
from sparewheel.api.names import LABEL_POOL
from sparewheel.capacity.choose import Need, spares_in_order
from sparewheel.capacity.claims import ClaimedError, as_owner, claim_first, holds, in_turn, let_go, owner_of
from sparewheel.capacity.hosts import hosts_of, read_host
from sparewheel.clock import SystemClock
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import GPU_HOST, KubeError, UnavailableError

SPACE = "sparewheel"
CLOCK = SystemClock()


def put_host(kube: MemoryKube, name: str, phase: HostPhase = HostPhase.SPARE, **spec: Any) -> None:
    spec = {"pool": "gpu", "host": name, "provider_id": f"machines://{name}"} | spec
    host = GpuHost(metadata=ObjectMeta(name=name, labels={LABEL_POOL: str(spec["pool"])}), spec=GpuHostSpec(**spec))
    host.status.phase = phase
    kube.put(GPU_HOST, host.to_wire(), SPACE)


async def take(kube: MemoryKube, owner: str) -> GpuHost | None:
    hosts = await hosts_of(kube, SPACE, "gpu")
    order = spares_in_order(hosts, Need(), now=CLOCK.now())
    return await claim_first(kube, SPACE, hosts, in_turn(order), owner, lambda _: "test", CLOCK)


async def test_two_claimants_of_one_host_one_wins() -> None:
    kube = MemoryKube()
    put_host(kube, "a")
    got = await asyncio.gather(*(take(kube, f"owner-{index}") for index in range(5)))
    assert sum(host is not None for host in got) == 1


async def test_many_claimants_get_one_each() -> None:
    kube = MemoryKube()
    for index in range(4):
        put_host(kube, f"h{index}")
    got = await asyncio.gather(*(take(kube, f"owner-{index}") for index in range(6)))
    names = [host.metadata.name for host in got if host is not None]
    assert len(names) == len(set(names)) == 4


async def test_claiming_again_finds_the_same() -> None:
    kube = MemoryKube()
    put_host(kube, "a")
    put_host(kube, "b")
    first, second = await take(kube, "me"), await take(kube, "me")
    assert first is not None
    assert second is not None
    assert first.metadata.name == second.metadata.name
    assert second.status.claim == first.status.claim


async def test_a_failed_look_claims_nothing() -> None:
    kube = MemoryKube()
    put_host(kube, "a")
    kube.fail(UnavailableError("cut"), "get", GPU_HOST)
    with pytest.raises(UnavailableError):
        await take(kube, "me")
    assert owner_of(await read_host(kube, SPACE, "a")) is None


async def test_a_claim_whose_answer_was_lost_is_found_again() -> None:
    kube = MemoryKube()
    put_host(kube, "a")
    put_host(kube, "b")
    kube.fail(UnavailableError("cut"), "replace", GPU_HOST, when="after")
    with pytest.raises(UnavailableError):
        await take(kube, "me")
    host = await take(kube, "me")
    assert host is not None
    owners = [owner_of(await read_host(kube, SPACE, name)) for name in ("a", "b")]
    assert owners.count("me") == 1


async def test_only_its_owner_changes_a_claimed_host() -> None:
    kube = MemoryKube()
    put_host(kube, "a")
    host = await take(kube, "me")
    assert host is not None
    with pytest.raises(ClaimedError, match="not held by other but by me"):
        await as_owner(kube, SPACE, "a", "other", lambda _: None)
    with pytest.raises(ClaimedError):
        await let_go(kube, host, "other", lambda _: None)


OWNERS = st.sampled_from(["remediation/a", "remediation/b", "pool/gpu"])
NAMES = ("h1", "h2", "h3")


class Claims(RuleBasedStateMachine):
    """Owners believe what they were answered; the cluster must agree."""

    def __init__(self) -> None:
        super().__init__()
        self.kube = MemoryKube()
        self.loop = asyncio.new_event_loop()
        for name in NAMES:
            put_host(self.kube, name)
        self.believed: dict[str, str] = {}
        """Host by owner that got it for sure."""

    def teardown(self) -> None:
        self.loop.close()

    def owner(self, name: str) -> str | None:
        body = self.kube.peek(GPU_HOST, name, SPACE)
        return owner_of(GpuHost.from_wire(body)) if body else None

    @rule(when=st.sampled_from(["before", "after"]), verb=st.sampled_from(["get", "list", "replace"]))
    def outage(self, when: Any, verb: Any) -> None:
        self.kube.fail(UnavailableError("cut"), verb, GPU_HOST, when=when)

    @rule(owner=OWNERS)
    def claims(self, owner: str) -> None:
        try:
            host = self.loop.run_until_complete(take(self.kube, owner))
        except KubeError:
            return
        if host is None:
            assert owner not in self.believed
        else:
            assert self.believed.get(owner, host.metadata.name) == host.metadata.name
            self.believed[owner] = host.metadata.name

    @rule(owner=OWNERS, name=st.sampled_from(NAMES))
    def asks(self, owner: str, name: str) -> None:
        try:
            answer = self.loop.run_until_complete(holds(self.kube, SPACE, name, owner))
        except KubeError:
            return
        assert answer == (self.owner(name) == owner)

    @rule(owner=OWNERS)
    def lets_go(self, owner: str) -> None:
        name = self.believed.pop(owner, None)
        if name is None:
            return
        try:
            host = self.loop.run_until_complete(read_host(self.kube, SPACE, name))
            self.loop.run_until_complete(let_go(self.kube, host, owner, lambda _: None))
        except KubeError:
            if self.owner(name) == owner:  # the write didn't take effect
                self.believed[owner] = name

    @invariant()
    def what_is_believed_is_so(self) -> None:
        for owner, name in self.believed.items():
            assert self.owner(name) == owner

    @invariant()
    def nobody_holds_two(self) -> None:
        owners = [owner for name in NAMES if (owner := self.owner(name)) is not None]
        assert len(owners) == len(set(owners))


TestClaims = Claims.TestCase
TestClaims.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
