"""The stand-in against a real API server and a small slurmrestd: what happens to pods, Slurm nodes and objects.

The test plays scheduler and kubelet: it binds pods, marks them ready, and ends pods that are being deleted.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.standins.slinky import kube as slinky_kube
from lab.standins.slinky import operator, slurm_jwt
from lab.standins.slinky.kube import RESOURCES, STRATEGIC, Kube
from lab.standins.slinky.schema.crds import OUT
from tests.api.slinky_slurmrestd import FakeSlurm, serving
from tests.api.test_slinky_crds import STRICT, install
from tests.unit.standins import slinky_objects as given

Obj = dict[str, Any]
KEY = b"0123456789abcdef0123456789abcdef"
SPEED = 20.0
WAIT_SECONDS = 20.0
CORDON = "nodeset.slinky.slurm.net/pod-cordon"
REASON = "nodeset.slinky.slurm.net/node-cordon-reason"
PROTECT = "nodeset.slinky.slurm.net/pod-protect"


class FastClock:
    """Twenty seconds pass in one."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_seconds(self) -> float:
        return asyncio.get_running_loop().time() * SPEED

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds) / SPEED)


class Cluster:
    """One namespace with the objects of a Slurm cluster, and the operator running over it."""

    def __init__(self, api: Kube, slurm: FakeSlurm, namespace: str) -> None:
        self.api = api
        self.slurm = slurm
        self.namespace = namespace

    async def put(self, obj: Obj) -> Obj:
        obj["metadata"] = {**obj["metadata"], "namespace": self.namespace}
        for field in ("uid", "generation"):
            obj["metadata"].pop(field, None)
        return await self.api.apply(obj)

    async def get(self, kind: str, name: str) -> Obj | None:
        found = await self.api.get(kind, self.namespace, name)
        if found is not None:
            found["kind"] = kind
        return found

    async def until(self, kind: str, name: str, true: Callable[[Obj], Any], why: str) -> Obj:
        """The object once ``true`` holds of it."""
        last: Obj | None = None
        for _ in range(int(WAIT_SECONDS / 0.05)):
            last = await self.get(kind, name)
            if last is not None and true(last):
                return last
            await asyncio.sleep(0.05)
        raise AssertionError(f"{kind} {name}: {why}; last seen: {last}")

    async def until_gone(self, kind: str, name: str, uid: str) -> None:
        for _ in range(int(WAIT_SECONDS / 0.05)):
            found = await self.get(kind, name)
            if found is None or found["metadata"]["uid"] != uid:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{kind} {name} is still there")

    async def run_pod(self, name: str, host: str) -> Obj:
        """Bind the pod to a host and mark it ready, as scheduler and kubelet do."""
        await self.until("Pod", name, lambda pod: not pod["metadata"].get("deletionTimestamp"), "was not made")
        target = {"apiVersion": "v1", "kind": "Node", "name": host}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self.api._send("POST", RESOURCES["Pod"].at(self.namespace, name) + "/binding", body)
        pod = await self.get("Pod", name)
        assert pod is not None
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
        change = {"status": {"phase": "Running", "conditions": [ready]}}
        return await self.api.patch(pod, change, subresource="status", content_type=STRATEGIC)

    async def delete_pod(self, name: str, *, force: bool = False) -> None:
        body = {"gracePeriodSeconds": 0} if force else {}
        await self.api._send("DELETE", RESOURCES["Pod"].at(self.namespace, name), body)

    async def set_host(self, name: str, *, cordoned: bool, reason: str | None = None) -> None:
        node = {"kind": "Node", "metadata": {"name": name}}
        change = {"spec": {"unschedulable": cordoned}, "metadata": {"annotations": {REASON: reason}}}
        await self.api.patch(node, change)


async def wait_for(true: Callable[[], Any], why: str) -> None:
    for _ in range(int(WAIT_SECONDS / 0.05)):
        if true():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(why)


@asynccontextmanager
async def running(access: slinky_kube.Access, url: str) -> AsyncIterator[None]:
    task = asyncio.create_task(operator.run(access, FastClock(), slurmrestd_url=url))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def operators_access(api: Kube, kubeconfig: Path) -> slinky_kube.Access:
    """Access with the rights that the operator's manifests give it, and no more."""
    paths = {
        "Namespace": "/api/v1/namespaces",
        "ServiceAccount": "/api/v1/namespaces/slinky/serviceaccounts",
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "Deployment": "/apis/apps/v1/namespaces/slinky/deployments",
    }
    for body in yaml.safe_load_all((OUT.parent / "operator.yaml").read_text(encoding="utf-8")):
        path = f"{paths[body['kind']]}/{body['metadata']['name']}"
        await api._send("PATCH", path, body, content_type=slinky_kube.APPLY, params=STRICT)
    request: Obj = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await api._send("POST", f"{paths['ServiceAccount']}/slurm-operator/token", request)
    admin = slinky_kube.from_kubeconfig(kubeconfig)
    tls = ssl.create_default_context(cafile=str(kubeconfig.with_name("ca.crt")))
    return slinky_kube.Access(admin.server, tls, slinky_kube._Bearer(answer["status"]["token"]))


@pytest.fixture
async def cluster(api_server: Path, request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    namespace = "s-" + request.node.name.replace("_", "-").removeprefix("test-")[:40].strip("-")
    access = slinky_kube.from_kubeconfig(api_server)
    async with Kube.connected(access) as api, serving(FakeSlurm(KEY)) as slurm:
        await install(api)
        await api._send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        for number in (1, 2, 3):
            if await api.get("Node", "", f"host-{number}") is None:
                await api._send("POST", "/api/v1/nodes", {"metadata": {"name": f"host-{number}"}})
        made = Cluster(api, slurm, namespace)
        for number in (1, 2, 3):
            await made.set_host(f"host-{number}", cordoned=False)
        data = {"slurm.key": "c2x1cm0=", "jwt_hs256.key": base64.b64encode(KEY).decode()}
        for name, content in (
            ("slurm-auth", data),
            ("sssd", {"sssd.conf": "W3Nzc2Rd"}),
            ("mariadb-password", {"password": "cHc="}),
        ):
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": content}
            await made.put(secret)
        extra = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "slurm-extra"}}
        await made.put({**extra, "data": {"cgroup.conf": "CgroupPlugin=disabled\n"}})
        async with running(await operators_access(api, api_server), slurm.url):
            yield made
            for kind in ("NodeSet", "LoginSet", "RestApi", "Accounting", "Token", "Controller"):
                for one in (await api.list(kind))[0]:
                    if one["metadata"]["namespace"] == namespace:
                        await api.delete(one)


async def two_workers(cluster: Cluster, controller: Obj | None = None) -> None:
    """A cluster with two registered, idle workers on host-1 and host-2."""
    await cluster.put(given.controller(**(controller or {})))
    await cluster.put(given.restapi())
    await cluster.put(given.nodeset())
    for number in (0, 1):
        cluster.slurm.register(f"gpu-{number}", "IDLE", "DYNAMIC_NORM")
        await cluster.run_pod(f"gpu-{number}", f"host-{number + 1}")
    for number in (0, 1):
        await cluster.until("Pod", f"gpu-{number}", has("SlurmNodeStateIdle"), "Slurm's state isn't shown")


def has(condition: str, message: str | None = None) -> Callable[[Obj], bool]:
    def look(pod: Obj) -> bool:
        held = {one["type"]: one.get("message", "") for one in pod["status"].get("conditions", [])}
        return condition in held and (message is None or held[condition] == message)

    return look


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


async def test_a_cordon_drains_and_an_uncordon_undrains(cluster: Cluster) -> None:
    await two_workers(cluster)
    await cluster.set_host("host-1", cordoned=True, reason="XID 79 on GPU 3")
    why = "slurm-operator: XID 79 on GPU 3"
    pod = await cluster.until("Pod", "gpu-0", has("SlurmNodeStateDrain", why), "isn't shown as drained")
    assert pod["metadata"]["annotations"][CORDON] == "true"
    assert "DRAIN" in cluster.slurm.states("gpu-0")
    assert "DRAIN" not in cluster.slurm.states("gpu-1")
    await cluster.set_host("host-1", cordoned=False)
    await wait_for(lambda: "DRAIN" not in cluster.slurm.states("gpu-0"), "the drain wasn't taken back")
    await cluster.until("Pod", "gpu-0", lambda one: CORDON not in one["metadata"]["annotations"], "stayed cordoned")


async def test_an_admins_drain_is_left_alone(cluster: Cluster) -> None:
    await two_workers(cluster)
    cluster.slurm.register("gpu-0", "IDLE", "DRAIN", reason="bad HBM", comment=cluster.slurm.nodes["gpu-0"]["comment"])
    await cluster.until("Pod", "gpu-0", has("SlurmNodeStateDrain", "bad HBM"), "isn't shown")
    await cluster.set_host("host-1", cordoned=True, reason="mine")
    await cluster.set_host("host-1", cordoned=False)
    await asyncio.sleep(1.0)
    assert cluster.slurm.nodes["gpu-0"]["reason"] == "bad HBM"
    assert "DRAIN" in cluster.slurm.states("gpu-0")


async def test_a_busy_worker_is_protected(cluster: Cluster) -> None:
    await two_workers(cluster)
    cluster.slurm.nodes["gpu-0"]["state"] = ["ALLOCATED"]
    pod = await cluster.until("Pod", "gpu-0", lambda one: one["metadata"]["labels"].get(PROTECT), "isn't protected")
    assert has("SlurmNodeStateAllocated")(pod)
    nodeset = await cluster.until("NodeSet", "gpu", lambda one: one["status"]["slurmAllocated"] == 1, "counts none")
    assert nodeset["status"]["slurmIdle"] == 1
    cluster.slurm.nodes["gpu-0"]["state"] = ["IDLE"]
    await cluster.until("Pod", "gpu-0", lambda one: not one["metadata"]["labels"].get(PROTECT), "stays protected")


async def test_a_pod_stuck_in_deletion_holds_its_place_and_a_moved_one_is_set_idle_once(cluster: Cluster) -> None:
    await two_workers(cluster)
    before = await cluster.get("Pod", "gpu-0")
    assert before is not None
    assert "host-1" in cluster.slurm.nodes["gpu-0"]["comment"]
    await cluster.delete_pod("gpu-0")
    cluster.slurm.nodes["gpu-0"].update(state=["DOWN"], reason="sparewheel: XID 79")
    await asyncio.sleep(1.0)
    held = await cluster.get("Pod", "gpu-0")
    assert held is not None
    assert held["metadata"]["uid"] == before["metadata"]["uid"]
    await cluster.delete_pod("gpu-0", force=True)
    await cluster.until_gone("Pod", "gpu-0", before["metadata"]["uid"])
    await cluster.run_pod("gpu-0", "host-3")
    await cluster.until("Pod", "gpu-0", has("SlurmNodeStateIdle"), "was not set idle")
    assert '"node":"host-3"' in cluster.slurm.nodes["gpu-0"]["comment"]
    idle = [body for name, body in cluster.slurm.writes if name == "gpu-0" and body.get("state") == ["IDLE"]]
    assert len(idle) == 1
    cluster.slurm.nodes["gpu-0"].update(state=["DOWN"], reason="sparewheel: again")
    await cluster.until("Pod", "gpu-0", has("SlurmNodeStateDown"), "isn't shown as down")
    await asyncio.sleep(0.8)
    assert "DOWN" in cluster.slurm.states("gpu-0")


async def test_scale_in_drains_before_it_deletes(cluster: Cluster) -> None:
    await two_workers(cluster)
    cluster.slurm.nodes["gpu-1"]["state"] = ["ALLOCATED"]
    pod = await cluster.until("Pod", "gpu-1", has("SlurmNodeStateAllocated"), "isn't shown as busy")
    await cluster.put(given.nodeset(replicas=1))
    await wait_for(lambda: "DRAIN" in cluster.slurm.states("gpu-1"), "was not drained")
    assert cluster.slurm.nodes["gpu-1"]["reason"].endswith("is pending termination for scale-in")
    await asyncio.sleep(0.8)
    assert (await cluster.get("Pod", "gpu-1") or {})["metadata"]["uid"] == pod["metadata"]["uid"]
    cluster.slurm.nodes["gpu-1"]["state"] = ["IDLE", "DRAIN"]
    await cluster.until("Pod", "gpu-1", lambda one: one["metadata"].get("deletionTimestamp"), "was not deleted")
    assert "DRAIN" not in cluster.slurm.states("gpu-0")


async def test_scale_in_taken_back_undrains(cluster: Cluster) -> None:
    await two_workers(cluster)
    cluster.slurm.nodes["gpu-1"]["state"] = ["ALLOCATED"]
    await cluster.put(given.nodeset(replicas=1))
    await wait_for(lambda: "DRAIN" in cluster.slurm.states("gpu-1"), "was not drained")
    await cluster.put(given.nodeset(replicas=2))
    await wait_for(lambda: "DRAIN" not in cluster.slurm.states("gpu-1"), "stayed drained")


async def test_an_answer_with_errors_decides_nothing(cluster: Cluster) -> None:
    await two_workers(cluster)
    cluster.slurm.failing = True
    await cluster.put(given.nodeset(replicas=0))
    await asyncio.sleep(1.0)
    for number in (0, 1):
        pod = await cluster.get("Pod", f"gpu-{number}")
        assert pod is not None
        assert "deletionTimestamp" not in pod["metadata"]
    cluster.slurm.failing = False
    await cluster.until("Pod", "gpu-1", lambda one: one["metadata"].get("deletionTimestamp"), "was never let go")


async def test_an_unregistered_healthy_pod_is_made_again(cluster: Cluster) -> None:
    await two_workers(cluster)
    before = await cluster.get("Pod", "gpu-1")
    assert before is not None
    del cluster.slurm.nodes["gpu-1"]
    await cluster.until("Pod", "gpu-1", lambda one: one["metadata"].get("deletionTimestamp"), "was not deleted")


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


async def test_a_new_image_rolls_one_worker_at_a_time(cluster: Cluster) -> None:
    await two_workers(cluster)
    await cluster.put(given.nodeset(slurmd={"image": "x/slurmd:next"}))
    old = await cluster.until("Pod", "gpu-1", lambda one: one["metadata"].get("deletionTimestamp"), "was not replaced")
    assert "DRAIN" in cluster.slurm.states("gpu-1")
    first = await cluster.get("Pod", "gpu-0")
    assert first is not None
    assert "deletionTimestamp" not in first["metadata"]
    await cluster.delete_pod("gpu-1", force=True)
    await cluster.until_gone("Pod", "gpu-1", old["metadata"]["uid"])
    made = await cluster.run_pod("gpu-1", "host-3")
    assert made["spec"]["containers"][0]["image"] == "x/slurmd:next"
    await cluster.until("Pod", "gpu-0", lambda one: one["metadata"].get("deletionTimestamp"), "was never replaced")


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


async def test_without_a_restapi_a_worker_counts_as_drained(cluster: Cluster) -> None:
    await cluster.put(given.controller())
    await cluster.put(given.nodeset())
    for number in (0, 1):
        await cluster.run_pod(f"gpu-{number}", f"host-{number + 1}")
    await cluster.put(given.nodeset(replicas=1))
    await cluster.until("Pod", "gpu-1", lambda one: one["metadata"].get("deletionTimestamp"), "was not deleted")
    controller = await cluster.until("Controller", "slurm", lambda one: one.get("status"), "has no status")
    assert controller["status"]["conditions"][0]["reason"] == "NoSlurmClient"
