"""What every capacity backend must do, asked of each.

Machines are behind a real SSH server, warm nodes behind a Kube, Crusoe's VMs behind a Kube and their API over HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pytest

from lab.standins.crusoe.trouble import Fault
from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_host import GpuHost, GpuHostSpec, HostPhase
from sparewheel.api.gpu_pool import KubeadmJoin
from sparewheel.api.names import (
    LABEL_HOST,
    LABEL_POOL,
    LABEL_ROLE,
    NAMESPACE,
    ROLE_ACTIVE,
    ROLE_QUARANTINED,
    ROLE_SPARE,
    SLINKY_NODE_CORDON_REASON,
    TAINT_JOINING,
    TAINT_QUARANTINED,
    TAINT_SPARE,
)
from sparewheel.capacity.backends.crusoe import CrusoeProvider
from sparewheel.capacity.backends.kubeadm import Door
from sparewheel.capacity.backends.machines import MachinesProvider
from sparewheel.capacity.backends.warm import WarmProvider
from sparewheel.capacity.heard import Reports
from sparewheel.capacity.nodes import POOL_CORDON, edit_node, labels_of, placing, taints_of
from sparewheel.capacity.port import CapacityError, CapacityProvider, JoinRequest, Proof, Taint
from sparewheel.capacity.steps import Site, retire
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import GPU_HOST, NODE, Json, UnavailableError
from tests.support.clocks import StillClock
from tests.support.crusoe_yard import CREDENTIALS, CrusoeYard, crusoe_yard
from tests.support.ssh_yard import SshYard, ssh_yard
from tests.support.yard import POOL, pool_of

LABELS = {LABEL_POOL: "gpu", LABEL_HOST: "gpu-1", LABEL_ROLE: ROLE_SPARE}
REQUEST = JoinRequest("gpu-1", "gpu-1", LABELS, [Taint(TAINT_JOINING)])


class Place(Protocol):
    """A backend's world, looked at from behind."""

    @property
    def provider(self) -> CapacityProvider: ...

    @property
    def can_switch(self) -> bool: ...

    def serves(self, host: str) -> bool:
        """Does the host take the pool's work, as far as the backend is concerned?"""
        ...

    def labels(self, host: str) -> Mapping[str, str]: ...

    def taints(self, host: str) -> set[str]: ...

    def break_down(self) -> None:
        """From now on nothing can be asked."""
        ...


@dataclass
class MachinesPlace:
    yard: SshYard
    provider: CapacityProvider
    can_switch: bool = True

    def serves(self, host: str) -> bool:
        return bool(self.yard.machines[host].node_name)

    def labels(self, host: str) -> Mapping[str, str]:
        return self.yard.machines[host].labels

    def taints(self, host: str) -> set[str]:
        return {taint.split("=")[0] for taint in self.yard.machines[host].taints}

    def break_down(self) -> None:
        self.yard.broken = "disk on fire"


@dataclass
class WarmPlace:
    kube: MemoryKube
    provider: CapacityProvider
    can_switch: bool = False

    def node(self, host: str) -> Json:
        node = self.kube.peek(NODE, host)
        assert node is not None
        return node

    def serves(self, host: str) -> bool:
        return not self.taints(host) & {TAINT_SPARE, TAINT_QUARANTINED}

    def labels(self, host: str) -> Mapping[str, str]:
        return labels_of(self.node(host))

    def taints(self, host: str) -> set[str]:
        return {taint["key"] for taint in taints_of(self.node(host))}

    def break_down(self) -> None:
        self.kube.fail(UnavailableError("disk on fire"), times=99)


@dataclass
class CrusoePlace(WarmPlace):
    yard: CrusoeYard | None = None
    can_switch: bool = True

    def break_down(self) -> None:
        assert self.yard is not None
        self.yard.server.trouble.faults.append(Fault("", 500, times=999, message="disk on fire"))


async def a_door() -> Door:
    return Door("192.0.2.10:6443", "sha256:00", "abcdef.0123456789abcdef")


@pytest.fixture(params=["machines", "kubeadm", "warm", "crusoe"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    if request.param == "machines":
        async with ssh_yard("gpu-1", "gpu-2") as yard:
            yield MachinesPlace(yard, MachinesProvider(yard.backend(), yard.client_key, yard.client_key))
        return
    if request.param == "kubeadm":
        async with ssh_yard("gpu-1", "gpu-2") as yard:
            backend = yard.backend(kubeadm=KubeadmJoin())
            yield MachinesPlace(yard, MachinesProvider(backend, yard.client_key, yard.client_key, a_door))
        return
    if request.param == "crusoe":
        async with crusoe_yard() as yard:
            kube, pool = MemoryKube(), yard.pool(2)
            provider = CrusoeProvider(yard.backend(pool), kube, yard.clock, CREDENTIALS.secret_key, 2)
            yard.nodes_in(kube)
            yield CrusoePlace(kube, provider, yard=yard)
        return
    kube = MemoryKube()
    taint = {"key": TAINT_SPARE, "effect": "NoSchedule"}
    for name in ("gpu-1", "gpu-2", "other"):
        labels = {"class": "system" if name == "other" else "h200"}
        kube.put(NODE, {"metadata": {"name": name, "labels": labels}, "spec": {"taints": [taint]}})
    yield WarmPlace(kube, WarmProvider(kube, {"class": "h200"}))


class TestContract:
    async def test_it_lists_the_pools_machines(self, place: Place) -> None:
        hosts = await place.provider.list_hosts()
        assert [machine.host for machine in hosts] == ["gpu-1", "gpu-2"]
        assert len({machine.provider_id for machine in hosts}) == 2

    async def test_a_host_joins_tainted_and_labelled(self, place: Place) -> None:
        await place.provider.power_on("gpu-1")
        for _ in range(2):  # twice is as once
            await place.provider.join(REQUEST)
            assert place.serves("gpu-1")
            assert place.taints("gpu-1") == {TAINT_JOINING}
            assert {key: place.labels("gpu-1").get(key) for key in LABELS} == LABELS
        assert not place.serves("gpu-2")

    async def test_a_host_leaves(self, place: Place) -> None:
        await place.provider.join(REQUEST)
        for _ in range(2):
            await place.provider.leave("gpu-1")
            assert not place.serves("gpu-1")

    async def test_a_quarantined_host_is_out_of_reach_of_work(self, place: Place) -> None:
        await place.provider.join(REQUEST)
        await place.provider.leave("gpu-1")
        for _ in range(2):
            await place.provider.quarantine("gpu-1", "XID 79")
            assert not place.serves("gpu-1")

    async def test_a_released_host_joins_again(self, place: Place) -> None:
        await place.provider.join(REQUEST)
        for _ in range(2):
            await place.provider.release("gpu-1")
            assert not place.serves("gpu-1")
        assert LABEL_POOL not in place.labels("gpu-1")
        await place.provider.join(REQUEST)
        assert place.serves("gpu-1")

    async def test_power(self, place: Place) -> None:
        """Off is said only by who can see it."""
        seen = await place.provider.prove_off("gpu-1", power_off=False)
        assert seen is (Proof.ON if place.can_switch else Proof.UNKNOWN)
        switched = await place.provider.prove_off("gpu-1", power_off=True)
        assert switched is (Proof.OFF if place.can_switch else Proof.UNKNOWN)

    async def test_a_reboot_is_made_or_refused(self, place: Place) -> None:
        if place.can_switch:
            await place.provider.reboot("gpu-1")
            assert await place.provider.prove_off("gpu-1", power_off=False) is Proof.ON
        else:
            with pytest.raises(CapacityError, match="gpu-1 can't be rebooted"):
                await place.provider.reboot("gpu-1")

    async def test_a_strange_host_is_named(self, place: Place) -> None:
        provider = place.provider
        for attempt in (
            provider.power_on("other"),
            provider.join(JoinRequest("other", "other")),
            provider.leave("other"),
            provider.quarantine("other", "x"),
            provider.release("other"),
        ):
            with pytest.raises(CapacityError, match="other"):
                await attempt

    async def test_no_answer_is_no_proof(self, place: Place) -> None:
        place.break_down()
        assert await place.provider.prove_off("gpu-1", power_off=True) is Proof.UNKNOWN
        with pytest.raises((CapacityError, UnavailableError), match="disk on fire"):
            await place.provider.join(REQUEST)


async def test_warm_quarantine_is_seen_on_the_node() -> None:
    kube = MemoryKube()
    kube.put(NODE, {"metadata": {"name": "gpu-1", "labels": {"class": "h200"}}})
    provider = WarmProvider(kube, {"class": "h200"})
    await provider.quarantine("gpu-1", "XID 79")
    node = kube.peek(NODE, "gpu-1")
    assert node is not None
    assert labels_of(node)[LABEL_ROLE] == ROLE_QUARANTINED
    assert [taint["key"] for taint in taints_of(node)] == [TAINT_QUARANTINED]


async def test_a_warm_host_whose_node_was_removed_is_retired_all_the_same() -> None:
    """Its machine ended and the cloud's controller removed the Node: nothing is left to lead out or to mark."""
    kube, clock = MemoryKube(), StillClock()
    pool = pool_of(kube, 1)
    spec = GpuHostSpec(pool=POOL, host="gpu-1", provider_id="node://gpu-1")
    host = GpuHost(metadata=ObjectMeta(name="gpu-1", namespace=NAMESPACE, labels={LABEL_POOL: spec.pool}), spec=spec)
    host.status.phase, host.status.node_name = HostPhase.ACTIVE, "gpu-1"
    site = Site(kube, WarmProvider(kube, {"class": "h200"}), pool, clock, Reports())
    stored = GpuHost.from_wire(kube.put(GPU_HOST, host.to_wire(), NAMESPACE))
    retired = await retire(site, stored, "boot-1", "NODE_LOST")
    assert (retired.status.phase, retired.status.refused_boot_id) == (HostPhase.QUARANTINED, "boot-1")


async def test_warm_takes_back_its_own_cordon_only() -> None:
    kube = MemoryKube()
    for name, reason in (("gpu-1", POOL_CORDON), ("gpu-2", "bad HBM")):
        metadata = {"name": name, "labels": {"class": "h200"}, "annotations": {SLINKY_NODE_CORDON_REASON: reason}}
        kube.put(NODE, {"metadata": metadata, "spec": {"unschedulable": True}})
        await WarmProvider(kube, {"class": "h200"}).leave(name)
    cordoned = {name: (kube.peek(NODE, name) or {})["spec"].get("unschedulable") for name in ("gpu-1", "gpu-2")}
    assert cordoned == {"gpu-1": None, "gpu-2": True}


async def test_a_write_between_read_and_write_is_not_lost() -> None:
    kube = MemoryKube()
    kube.put(NODE, {"metadata": {"name": "n"}})
    once = iter([True])

    def change(node: Json) -> Json | None:
        if next(once, False):
            kube.put(NODE, {**node, "spec": {"taints": [{"key": "theirs", "effect": "NoSchedule"}]}})
        return placing({LABEL_ROLE: ROLE_ACTIVE}, [Taint(TAINT_JOINING)])(node)

    await edit_node(kube, "n", change)
    node = kube.peek(NODE, "n")
    assert node is not None
    assert [taint["key"] for taint in taints_of(node)] == ["theirs", TAINT_JOINING]
