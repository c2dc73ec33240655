"""The stand-in over a real API server and a small slurmrestd.

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

import yaml

from lab.standins.slinky import kube as slinky_kube
from lab.standins.slinky import operator
from lab.standins.slinky.kube import RESOURCES, STRATEGIC, Kube
from lab.standins.slinky.schema.crds import OUT
from tests.api.slinky_slurmrestd import FakeSlurm, serving
from tests.unit.standins import slinky_objects as given

Obj = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STRICT = {"fieldValidation": "Strict", "fieldManager": "test", "force": "true"}
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


async def install(api: Kube) -> None:
    """Apply the definitions and wait until all are served."""
    for file in sorted(OUT.glob("*.yaml")):
        body: Obj = yaml.safe_load(file.read_text(encoding="utf-8"))
        path = f"{DEFINITIONS}/{body['metadata']['name']}"
        await api._send("PATCH", path, body, content_type=slinky_kube.APPLY, params=STRICT)
        while True:
            found = await api._send("GET", path)
            conditions: list[Obj] = found.get("status", {}).get("conditions") or []
            held: dict[str, str] = {one["type"]: one["status"] for one in conditions}
            assert "NonStructuralSchema" not in held
            if held.get("Established") == "True":
                break
            await asyncio.sleep(0.05)


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


@asynccontextmanager
async def slinky_cluster(api_server: Path, test: str) -> AsyncIterator[Cluster]:
    """The operator over a namespace of the test's own."""
    namespace = "s-" + test.replace("_", "-").removeprefix("test-")[:40].strip("-")
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
