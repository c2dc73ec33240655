"""A pool of Crusoe's VMs from first build to a healed node, through the code that Pulumi and the controller call."""

from __future__ import annotations

from sparewheel.api.names import NAMESPACE, TAINT_QUARANTINED
from sparewheel.capacity.hosts import hosts_of
from sparewheel.capacity.nodes import has_taint
from sparewheel.capacity.port import BadNode, CapacityProvider
from sparewheel.capacity.reconcile import reconcile_pool
from sparewheel.capacity.replacer import PoolReplacer
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import NODE
from tests.support.crusoe_yard import CREDENTIALS, ORGANIZATION, RESERVATION, crusoe_yard
from tests.support.yard import POOL, active_nodes, pool_of

OWNER = "remediation/inc"


async def test_a_pool_is_built_and_a_node_of_it_replaced() -> None:
    async with crusoe_yard() as yard:
        kube = MemoryKube(clock=yard.clock)
        yard.nodes_in(kube)
        made = yard.pool(3)
        reservation = {"organization_id": ORGANIZATION, "reservation_id": RESERVATION}
        yard.cloud.reservations[RESERVATION] = {
            "organization": ORGANIZATION, "id": RESERVATION, "quantity": 9, "used_quantity": 3,
        }  # fmt: skip
        backend = yard.backend(made, bad_vm="delete", reservation=reservation)
        pool = pool_of(kube, 2, backend=backend)

        from sparewheel.capacity.backends.crusoe import CrusoeProvider

        provider = CrusoeProvider(backend, kube, yard.clock, CREDENTIALS.secret_key, 3)

        async def provider_of(_: object) -> CapacityProvider:
            return provider

        async def look() -> bool:
            yard.clock.seconds += 1
            result = await reconcile_pool(kube, NAMESPACE, POOL, yard.clock, None, provider=provider)
            return result.settled

        async def phases() -> dict[str, str]:
            return {host.spec.host: host.status.phase.value for host in await hosts_of(kube, NAMESPACE, POOL)}

        for _ in range(5):
            await look()
        assert await phases() == {"gpu-1": "Active", "gpu-2": "Active", "gpu-3": "Spare"}

        replacer = PoolReplacer(kube, yard.clock, provider_of)
        assert (await replacer.claim_spare(pool, OWNER, "gpu-1", ())).host == "gpu-3"
        none = await replacer.claim_spare(pool, "remediation/other", "gpu-2", ())
        assert none.host is None
        assert none.why.startswith("node pool gpu: 1 VM(s) more asked for, but Out of Stock")

        assert await replacer.join_spare(pool, "gpu-3", OWNER, "gpu-1") == "gpu-3"
        await replacer.admit(pool, "gpu-3", OWNER)
        bad = kube.peek(NODE, "gpu-1")
        assert bad is not None
        boot_id = bad["status"]["nodeInfo"]["bootID"]
        await replacer.retire(pool, "gpu-1", BadNode("gpu-1", bad["metadata"]["uid"], boot_id, "XID 79"), OWNER)
        assert active_nodes(kube, ["gpu-1", "gpu-2", "gpu-3"]) == {"gpu-2", "gpu-3"}
        bad = kube.peek(NODE, "gpu-1")
        assert bad is not None
        assert has_taint(bad, TAINT_QUARANTINED)
        assert "gpu-1" not in {vm.name for vm in yard.cloud.vms.values()}

        await kube.delete(NODE, "gpu-1")  # as the cloud's controller does for a VM that is gone
        yard.clock.seconds += 60
        for _ in range(3):
            await look()
        assert await phases() == {"gpu-2": "Active", "gpu-3": "Active", "gpu-4": "Spare"}
        assert made.count == 3
