"""The stand-in's definitions on a real API server: what a strict client may write and what it may not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lab.standins.slinky import kube as slinky_kube
from lab.standins.slinky.kube import RESOURCES, Kube, KubeError
from tests.api.slinky_cluster import STRICT, Obj, install
from tests.unit.standins import slinky_objects as given


@pytest.fixture
async def api(api_server: Path) -> AsyncIterator[Kube]:
    async with Kube.connected(slinky_kube.from_kubeconfig(api_server)) as client:
        await install(client)
        yield client


async def strict(api: Kube, obj: Obj) -> Obj:
    """Write as pulumi-kubernetes does: server-side apply, unknown fields refused."""
    obj["metadata"] = {"name": obj["metadata"]["name"], "namespace": "default"}
    path = RESOURCES[obj["kind"]].at("default", obj["metadata"]["name"])
    return await api._send("PATCH", path, obj, content_type=slinky_kube.APPLY, params=STRICT)


async def clear(api: Kube, obj: Obj) -> None:
    found = await api.get(obj["kind"], "default", obj["metadata"]["name"])
    if found is not None:
        found["kind"] = obj["kind"]
        await api.delete(found)


ALL = [given.controller, given.nodeset, given.loginset, given.restapi, given.accounting, given.token]


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
async def test_a_plain_object_is_taken_and_defaults_are_set(api: Kube, make: Any) -> None:
    await clear(api, make())
    made = await strict(api, make())
    defaults = {
        "Controller": ("external", False),
        "NodeSet": ("scalingMode", "StatefulSet"),
        "LoginSet": ("replicas", 1),
        "Token": ("refresh", True),
    }
    if made["kind"] in defaults:
        field, value = defaults[made["kind"]]
        assert made["spec"][field] == value


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
async def test_an_unknown_field_is_refused(api: Kube, make: Any) -> None:
    with pytest.raises(KubeError, match=r"sssdConfig"):
        await strict(api, make(sssdConfig="x"))


async def test_core_types_keep_their_own_fields(api: Kube) -> None:
    body = given.nodeset(template={"spec": {"terminationGracePeriodSeconds": 150, "volumes": [{"name": "v"}]}})
    await clear(api, body)
    made = await strict(api, body)
    assert made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 150
    with pytest.raises(KubeError, match="templat"):
        await strict(api, given.nodeset(template={"specs": {}}))


REFUSED = [
    (given.controller(clusterName="x" * 41), "40 characters"),
    (given.controller(extraConf="KillWait=1\nnonsense"), "Key=Value"),
    (given.controller(jwtKeyRef=None), "jwtKeyRef"),
    (given.nodeset(updateStrategy={"rollingUpdate": {"maxUnavailable": 0}}), "more than 0"),
    (given.nodeset(updateStrategy={"rollingUpdate": {"maxUnavailable": "0%"}}), "more than 0"),
    (given.nodeset(ssh={"enabled": True, "sssdConfRef": {"key": "k"}}), "sssdConfRef"),
    (given.nodeset(extraConf="Gres=gpu:8 nonsense"), "Key=Value"),
    (given.nodeset(scalingMode="Sometimes"), "Unsupported value"),
    (given.nodeset(partition={"enabled": True, "config": "a\nb"}), "should match"),
    (given.loginset(sssdConfRef=None), "sssdConfRef"),
    (given.accounting(storageConfig=None), "storageConfig"),
    (given.token(jwtKeyRef=None), "jwtKeyRef"),
    (given.token(username=None), "username"),
]


@pytest.mark.parametrize(("body", "why"), REFUSED, ids=[f"{b['kind']}-{why}" for b, why in REFUSED])
async def test_what_the_webhooks_refuse(api: Kube, body: Obj, why: str) -> None:
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    body["metadata"]["name"] = "refused"
    with pytest.raises(KubeError, match=why) as caught:
        await strict(api, body)
    assert caught.value.code in {400, 422}


@pytest.mark.parametrize(
    "later",
    [
        given.controller(clusterName="other"),
        given.controller(slurmKeyRef={"name": "other", "key": "slurm.key"}),
        given.controller(jwtKeyRef={"name": "other", "key": "jwt_hs256.key"}),
        given.controller(persistence={"enabled": True}),
        given.nodeset(controllerRef={"name": "other"}),
    ],
    ids=["clusterName", "slurmKeyRef", "jwtKeyRef", "persistence", "controllerRef"],
)
async def test_what_is_fixed_for_life(api: Kube, later: Obj) -> None:
    make = given.controller if later["kind"] == "Controller" else given.nodeset
    first = make(clusterName="one") if later["kind"] == "Controller" else make()
    await clear(api, first)
    await strict(api, first)
    if later["kind"] == "Controller" and "clusterName" not in later["spec"]:
        later["spec"]["clusterName"] = "one"
    with pytest.raises(KubeError, match="immutable"):
        await strict(api, later)


async def test_a_nodeset_scales_by_its_subresource(api: Kube) -> None:
    await clear(api, given.nodeset())
    made = await strict(api, given.nodeset())
    made["kind"] = "NodeSet"
    selector = "app.kubernetes.io/name=slurmd"
    body = {"status": {"replicas": 2, "selector": selector, "nodeSetHash": "h"}}
    await api.patch(made, body, subresource="status")
    path = RESOURCES["NodeSet"].at("default", "gpu") + "/scale"
    scale = await api._send("GET", path)
    assert (scale["spec"]["replicas"], scale["status"]) == (2, {"replicas": 2, "selector": selector})
    await api._send("PATCH", path, {"spec": {"replicas": 5}}, content_type=slinky_kube.MERGE)
    found = await api.get("NodeSet", "default", "gpu")
    assert found is not None
    assert found["spec"]["replicas"] == 5


async def test_short_names_and_columns(api: Kube) -> None:
    found = await api._send("GET", f"/apis/{slinky_kube.names.API_VERSION}")
    short = {one["name"]: one.get("shortNames", []) for one in found["resources"] if "/" not in one["name"]}
    assert {"nss", "slurmd"} <= set(short["nodesets"])
    assert "jwt" in short["tokens"]
