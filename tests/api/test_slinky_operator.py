"""The stand-in against a real API server: which objects it makes, renews and leaves alone, and what it tells."""

from __future__ import annotations

import asyncio
import base64

from lab.standins.slinky import slurm_jwt
from tests.api.slinky_cluster import KEY, Cluster, Obj, two_workers
from tests.unit.standins import slinky_objects as given


async def test_all_objects_appear(cluster: Cluster) -> None:
    for make in (given.accounting, given.controller, given.restapi, given.loginset, given.nodeset, given.token):
        body = make(accountingRef={"name": "slurm"}) if make is given.controller else make()
        await cluster.put(body)

    def there(_: Obj) -> bool:
        return True

    for kind, name in (
        ("StatefulSet", "slurm-controller"),
        ("Service", "slurm-controller"),
        ("Service", "slurm-controller-internal"),
        ("Deployment", "slurm-restapi"),
        ("Service", "slurm-restapi"),
        ("StatefulSet", "slurm-accounting"),
        ("Service", "slurm-accounting"),
        ("Secret", "slurm-accounting"),
        ("Deployment", "login"),
        ("Service", "login"),
        ("ConfigMap", "login-ssh-config"),
        ("Secret", "login-ssh-host-keys"),
        ("Secret", "sparewheel-jwt-slurm"),
        ("Service", "slurm-workers-slurm"),
        ("PodDisruptionBudget", "slurm-workers-pdb-slurm"),
        ("Pod", "gpu-0"),
        ("Pod", "gpu-1"),
    ):
        await cluster.until(kind, name, there, "was not made")

    def whole(config: Obj) -> bool:
        text = config["data"]["slurm.conf"]
        return "PartitionName=gpu Nodes=gpu" in text and "AccountingStorageHost=slurm-accounting" in text

    config = await cluster.until("ConfigMap", "slurm-config", whole, "lacks the pool or slurmdbd")
    assert "cgroup.conf" not in config["data"]  # the user brings one
    keys = await cluster.get("Secret", "login-ssh-host-keys")
    assert keys is not None
    assert base64.b64decode(keys["data"]["ssh_host_ed25519_key"]).startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    controller = await cluster.until("Controller", "slurm", lambda one: one.get("status"), "has no status")
    (reachable,) = controller["status"]["conditions"]
    assert (reachable["type"], reachable["status"]) == ("SlurmReachable", "True")


async def test_the_second_look_changes_nothing(cluster: Cluster) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await cluster.put(given.accounting())
    await cluster.put(given.loginset())
    await two_workers(
        cluster, controller={"persistence": {"enabled": True, **claim}, "accountingRef": {"name": "slurm"}}
    )
    await cluster.until("Deployment", "login", lambda _: True, "was not made")
    await asyncio.sleep(1.0)

    async def versions() -> dict[str, str]:
        out: dict[str, str] = {}
        for kind in (
            "Pod",
            "Service",
            "StatefulSet",
            "Deployment",
            "ConfigMap",
            "NodeSet",
            "Controller",
            "RestApi",
            "LoginSet",
            "Secret",
        ):
            for one in (await cluster.api.list(kind))[0]:
                if one["metadata"].get("namespace") == cluster.namespace:
                    out[f"{kind} {one['metadata']['name']}"] = one["metadata"]["resourceVersion"]
        return out

    before, writes = await versions(), len(cluster.slurm.writes)
    await asyncio.sleep(1.5)  # thirty seconds of the operator's time
    assert await versions() == before
    assert len(cluster.slurm.writes) == writes


async def test_a_config_file_of_the_operators_own_name_is_told(cluster: Cluster) -> None:
    extra = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad"}, "data": {"slurm.conf": "x"}}
    await cluster.put(extra)
    await cluster.put(given.controller(configFileRefs=[{"name": "bad"}]))

    def told(one: Obj) -> bool:
        conditions = one.get("status", {}).get("conditions", [])
        return any(held["reason"] == "ReservedFileName" for held in conditions)

    await cluster.until("Controller", "slurm", told, "isn't told")
    assert await cluster.get("StatefulSet", "slurm-controller") is None


async def test_what_the_stand_in_leaves_out_is_told(cluster: Cluster) -> None:
    await cluster.put(given.controller())
    await cluster.put(given.nodeset(scalingMode="DaemonSet"))

    def told(one: Obj) -> bool:
        return any(held["type"] == "StandInUnsupported" for held in one.get("status", {}).get("conditions", []))

    await cluster.until("NodeSet", "gpu", told, "isn't told")


async def test_a_token_is_renewed_before_it_ends(cluster: Cluster) -> None:
    await cluster.put(given.token(lifetime="3s"))
    first = await cluster.until("Secret", "sparewheel-jwt-slurm", lambda _: True, "was not made")
    text = first["data"]["SLURM_JWT"]
    later = await cluster.until(
        "Secret", "sparewheel-jwt-slurm", lambda one: one["data"]["SLURM_JWT"] != text, "was not renewed"
    )
    old, new = (slurm_jwt.life(base64.b64decode(one).decode(), KEY) for one in (text, later["data"]["SLURM_JWT"]))
    assert old is not None
    assert new is not None
    assert old[0] < new[0] <= old[1]
