"""Node pools and the healer of a cluster, brought to what is declared, against the played service."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from lab.standins.crusoe.trouble import Fault
from sparewheel.crusoe.declared import LABEL_DECLARED, Wanted, ensure_healer, ensure_pool, read_pool, remove_pool
from sparewheel.crusoe.errors import CrusoeError, NotFoundError, OutOfStockError, UnknownOutcomeError
from sparewheel.crusoe.wire import NodeTaint
from tests.support.crusoe_yard import CLUSTER, H100, CrusoeYard, crusoe_yard

WANTED = Wanted("gpu", CLUSTER, H100, 2, {"team": "a"}, (NodeTaint("sparewheel.dev/spare", "NoSchedule"),))


@pytest.fixture
async def yard() -> AsyncIterator[CrusoeYard]:
    async with crusoe_yard() as made:
        made.cloud.stock[H100] = 4
        yield made


async def test_a_pool_is_made_once(yard: CrusoeYard) -> None:
    async with yard.client() as api:
        pool_id = await ensure_pool(api, WANTED)
        assert await ensure_pool(api, WANTED) == pool_id
        assert await ensure_pool(api, WANTED, pool_id) == pool_id
        seen = await read_pool(api, pool_id)
    assert seen is not None
    assert (seen.count, len(seen.instance_ids or []), seen.node_labels) == (
        2,
        2,
        {"team": "a", LABEL_DECLARED: "stack"},
    )
    assert [taint.key for taint in seen.node_taints or []] == ["sparewheel.dev/spare"]
    assert len([line for line in yard.server.seen if not line.startswith("GET")]) == 1


async def test_a_pool_whose_answer_was_lost_is_found_again(yard: CrusoeYard) -> None:
    yard.server.trouble.faults.append(Fault("POST", cut=True, carried_out=True))
    async with yard.client() as api:
        with pytest.raises(UnknownOutcomeError, match="make node pool gpu: the answer was lost"):
            await ensure_pool(api, WANTED)
        await ensure_pool(api, WANTED)
    assert len(yard.cloud.pools) == 1


async def test_a_pool_that_others_made_is_not_taken_over(yard: CrusoeYard) -> None:
    theirs = yard.cloud.add_pool("gpu", CLUSTER, H100, 1)
    async with yard.client() as api:
        with pytest.raises(CrusoeError, match="that no stack made; use another name"):
            await ensure_pool(api, WANTED)
        with pytest.raises(CrusoeError, match="so it is left"):
            await remove_pool(api, theirs.id, "stack")
    assert list(yard.cloud.pools) == [theirs.id]


async def test_only_what_differs_is_changed_and_a_raised_count_stays(yard: CrusoeYard) -> None:
    async with yard.client() as api:
        pool_id = await ensure_pool(api, WANTED)
        await api.set_pool_count(await api.pool(pool_id), 3)  # healing took one more
        await ensure_pool(api, msgspec.structs.replace(WANTED, node_labels={"team": "b"}), pool_id)
        seen = await api.pool(pool_id)
    assert (seen.count, (seen.node_labels or {})["team"]) == (3, "b")


async def test_too_few_vms_is_told_and_continued(yard: CrusoeYard) -> None:
    yard.cloud.stock[H100] = 1
    async with yard.client() as api:
        with pytest.raises(OutOfStockError, match="node pool gpu has 1 of 2 VMs: Out of Stock"):
            await ensure_pool(api, WANTED)
        yard.cloud.stock[H100] = 1
        pool_id = await ensure_pool(api, WANTED)
    assert len(yard.cloud.members(yard.cloud.pools[pool_id])) == 2


async def test_a_pool_is_gone_only_where_the_api_says_so(yard: CrusoeYard) -> None:
    async with yard.client() as api:
        pool_id = await ensure_pool(api, WANTED)
        yard.server.trouble.faults.append(Fault(pool_id, 403))
        with pytest.raises(CrusoeError, match="403"):
            await read_pool(api, pool_id)
        await remove_pool(api, pool_id, "an older incarnation")
        assert pool_id in yard.cloud.pools
        await remove_pool(api, pool_id, "stack")
        await remove_pool(api, pool_id, "stack")
        assert await read_pool(api, pool_id) is None
        with pytest.raises(NotFoundError):
            await ensure_pool(api, WANTED, pool_id)
    assert yard.cloud.vms == {}


async def test_ours_is_the_healer_and_theirs_again(yard: CrusoeYard) -> None:
    yard.auto("REPLACE_NODE")
    async with yard.client() as api:
        assert await ensure_healer(api, CLUSTER, ours=True, fallback=False) == ["XID_79"]
        found = await api.auto_clusters(CLUSTER)
        assert found is not None
        assert (found.acting, found.fallback_to_project_reservations) == ([], False)
        before = len(yard.asked("PATCH"))
        assert await ensure_healer(api, CLUSTER, ours=True, fallback=False) == []
        assert len(yard.asked("PATCH")) == before
        await ensure_healer(api, CLUSTER, ours=False, fallback=None)
        found = await api.auto_clusters(CLUSTER)
    assert found is not None
    assert (found.acting, found.fallback_to_project_reservations) == (["XID_79"], False)


async def test_a_cluster_without_auto_clusters_has_ours_already(yard: CrusoeYard) -> None:
    async with yard.client() as api:
        assert await ensure_healer(api, CLUSTER, ours=True, fallback=None) == []
        with pytest.raises(CrusoeError, match="no AutoClusters configuration"):
            await ensure_healer(api, CLUSTER, ours=False, fallback=None)
