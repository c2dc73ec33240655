"""A cluster made once, against the played service; one that others made is left alone."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import msgspec
import pytest
import yaml

from lab.standins.crusoe.trouble import Fault
from sparewheel.crusoe.declared_cluster import WantedCluster, kubeconfig_of, make_cluster, read_cluster, remove_cluster
from sparewheel.crusoe.errors import CrusoeError, UnknownOutcomeError
from tests.support.crusoe_yard import H100, CrusoeYard, crusoe_yard

WANTED = WantedCluster("train", "us-east1-a", "1.33.4-cmk.20", {"add_ons": ["crusoe_csi"]})
ADOPTING = msgspec.structs.replace(WANTED, adopt=True)


@pytest.fixture
async def yard() -> AsyncIterator[CrusoeYard]:
    async with crusoe_yard() as made:
        yield made


async def test_a_cluster_from_first_to_last(yard: CrusoeYard) -> None:
    async with yard.client() as api:
        cluster_id = await make_cluster(api, WANTED)
        assert yard.cloud.clusters[cluster_id]["add_ons"] == ["crusoe_csi"]
        found = await read_cluster(api, cluster_id)
        assert found is not None
        assert (found.status, found.location) == ("RUNNING", "us-east1-a")
        await remove_cluster(api, cluster_id)
        await remove_cluster(api, cluster_id)
        assert await read_cluster(api, cluster_id) is None


async def test_one_that_is_there_is_taken_over_only_where_that_is_said(yard: CrusoeYard) -> None:
    async with yard.client() as api:
        cluster_id = await make_cluster(api, WANTED)
        with pytest.raises(CrusoeError, match="has a cluster train already; set adopt"):
            await make_cluster(api, WANTED)
        assert await make_cluster(api, ADOPTING) == cluster_id
        with pytest.raises(CrusoeError, match="use another name"):
            await make_cluster(api, msgspec.structs.replace(ADOPTING, location="eu-iceland1-a"))
    assert len(yard.cloud.clusters) == 1


async def test_a_lost_answer_makes_no_second_cluster(yard: CrusoeYard) -> None:
    yard.server.trouble.faults.append(Fault("POST", cut=True, carried_out=True))
    async with yard.client() as api:
        assert await make_cluster(api, WANTED) in yard.cloud.clusters
    assert len(yard.cloud.clusters) == 1


async def test_a_request_that_was_lost_is_told(yard: CrusoeYard) -> None:
    yard.server.trouble.faults.append(Fault("POST", cut=True))
    async with yard.client() as api:
        with pytest.raises(UnknownOutcomeError, match="make cluster train: the answer was lost"):
            await make_cluster(api, WANTED)


async def test_a_cluster_with_node_pools_is_not_deleted(yard: CrusoeYard) -> None:
    async with yard.client() as api:
        cluster_id = await make_cluster(api, WANTED)
        yard.cloud.add_pool("theirs", cluster_id, H100, 0)
        with pytest.raises(CrusoeError, match=r"cluster train still has node pools \(theirs\)"):
            await remove_cluster(api, cluster_id)
    assert cluster_id in yard.cloud.clusters


async def test_a_kubeconfig_is_made_of_its_parts(yard: CrusoeYard) -> None:
    async with yard.client() as api:
        config = yaml.safe_load(await kubeconfig_of(api, await make_cluster(api, WANTED)))
    assert config["clusters"][0]["cluster"]["server"] == "https://train.example:443"
    assert base64.b64decode(config["users"][0]["user"]["client-key-data"]) == b"KEY"
    assert config["contexts"][0]["context"] == {"cluster": "train", "user": "admin"}
