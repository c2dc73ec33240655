"""Our CRDs on a real API server: accepted, complete, strict."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, cast

import pytest

from sparewheel.api.base import ApiObject
from sparewheel.api.crd import KINDS, crd_manifest, crd_name
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.remediation import Remediation
from sparewheel.api.remediation_policy import RemediationPolicy
from sparewheel.kube.client import KubeClient
from sparewheel.kube.install import CRD, apply_crds
from sparewheel.kube.port import InvalidError, NotFoundError, Resource
from tests.api.examples import examples

pytestmark = pytest.mark.usefixtures("crds")


def resource_of(model: type[ApiObject]) -> Resource:
    return Resource("sparewheel.dev", "v1alpha1", model.PLURAL, model.KIND, model.NAMESPACED)


def space_of(model: type[ApiObject]) -> str | None:
    return "default" if model.NAMESPACED else None


async def remade(kube: KubeClient, model: type[ApiObject], body: dict[str, Any]) -> dict[str, Any]:
    """Create the object anew; what an earlier test left under the name goes first."""
    resource, name, space = resource_of(model), body["metadata"]["name"], space_of(model)
    with contextlib.suppress(NotFoundError):
        await kube.delete(resource, name, space)
    return await kube.create(resource, body, space)


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.KIND)
async def test_schema_is_structural_and_kept_whole(kube: KubeClient, model: type[ApiObject]) -> None:
    crd = await kube.get(CRD, crd_name(model))
    conditions = {item["type"]: item for item in cast("list[dict[str, Any]]", crd["status"]["conditions"])}
    assert conditions["Established"]["status"] == "True"
    assert conditions["NamesAccepted"]["status"] == "True"
    assert "NonStructuralSchema" not in conditions
    wanted = crd_manifest(model)["spec"]["versions"][0]
    assert crd["spec"]["versions"][0]["schema"] == wanted["schema"]


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.KIND)
async def test_every_field_survives_a_round_trip(kube: KubeClient, model: type[ApiObject]) -> None:
    for body in examples(model):
        created = await remade(kube, model, body)
        assert created["spec"] == body["spec"]
        created["status"] = body["status"]
        stored = await kube.replace(resource_of(model), created, space_of(model), subresource="status")
        assert stored["status"] == body["status"]
        assert model.from_wire(stored).to_wire()["status"] == body["status"]


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.KIND)
async def test_unknown_fields_are_refused(kube: KubeClient, model: type[ApiObject]) -> None:
    body = examples(model)[0]
    body["spec"]["graceSecnods"] = 5
    with pytest.raises(InvalidError, match="graceSecnods"):
        await remade(kube, model, body)


async def test_a_remediations_spec_does_not_change(kube: KubeClient) -> None:
    body = examples(Remediation)[0]
    await remade(kube, Remediation, body)
    with pytest.raises(InvalidError, match="does not change"):
        await kube.merge_patch(
            resource_of(Remediation), body["metadata"]["name"], {"spec": {"graceSeconds": 1}}, "default"
        )
    await kube.merge_patch(
        resource_of(Remediation), body["metadata"]["name"], {"status": {"waitingFor": "a spare"}}, "default", "status"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"graceSeconds": 121}, "graceSeconds"),
        ({"size": -1}, "size"),
        ({"size": "two"}, "size"),
        ({"driver": "nobody"}, "driver"),
        ({"nodeLostSeconds": 0}, "nodeLostSeconds"),
        ({"backend": {"kind": "machines"}}, "kind machines needs keyRef, machines"),
        ({"backend": {"kind": "warm", "nodeSelector": {"a": "b"}, "leaveCommand": "x"}}, "kind warm has none of"),
        ({"backend": {"kind": "cloud"}}, "kind"),
    ],
)
async def test_a_pool_out_of_bounds_is_refused(kube: KubeClient, change: dict[str, Any], message: str) -> None:
    body = examples(GpuPool)[0]
    body["spec"] |= change
    with pytest.raises(InvalidError, match=message):
        await remade(kube, GpuPool, body)


async def test_a_pools_name_that_becomes_no_label_is_refused(kube: KubeClient) -> None:
    body = examples(GpuPool)[0]
    body["metadata"]["name"] = "p" * 41
    with pytest.raises(InvalidError, match="at most 40 characters"):
        await kube.create(resource_of(GpuPool), body, "default")


async def test_an_object_of_an_older_version_is_still_written_and_brought_up_to_date(kube: KubeClient) -> None:
    """Of before routes had a kind. Pulumi writes the owner of its fields first, and the controller the status."""
    older = crd_manifest(RemediationPolicy)
    routes = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["routes"]
    item = routes["items"]
    del item["x-kubernetes-validations"], item["required"], item["properties"]["kind"]
    resource, name = resource_of(RemediationPolicy), "older"
    route = {"name": "oncall", "urlRef": {"name": "hooks", "key": "url"}}
    body = {"metadata": {"name": name}, "spec": {"routes": [route]}}
    await apply_crds(kube, [older])
    try:
        async with asyncio.timeout(20):
            await _created_as_it_is(kube, body)
    finally:
        await apply_crds(kube, [crd_manifest(RemediationPolicy)])
    async with asyncio.timeout(20):
        await _refused_at_last(kube, {"metadata": {"name": "new"}, "spec": {"routes": [route]}})
    await kube.merge_patch(resource, name, {"metadata": {"annotations": {"example.dev/seen": "yes"}}}, "default")
    await kube.merge_patch(resource, name, {"status": {"message": "seen"}}, "default", "status")
    spec = {"routes": [{**route, "kind": "webhook"}]}
    written = await kube.merge_patch(resource, name, {"spec": spec}, "default")
    assert written["spec"] == spec
    wrong = {**route, "kind": "slack", "signingRef": {"name": "hooks", "key": "key"}}
    with pytest.raises(InvalidError, match="kind slack has none of"):
        await kube.merge_patch(resource, name, {"spec": {"routes": [wrong]}}, "default")
    await kube.delete(resource, name, "default")


async def _created_as_it_is(kube: KubeClient, body: dict[str, Any]) -> None:
    """The API server takes up a changed schema a moment after it was written."""
    resource = resource_of(RemediationPolicy)
    while True:
        try:
            await kube.create(resource, body, "default")
        except InvalidError:
            await asyncio.sleep(0.1)
        else:
            return


async def _refused_at_last(kube: KubeClient, body: dict[str, Any]) -> None:
    resource = resource_of(RemediationPolicy)
    with contextlib.suppress(InvalidError):
        while True:
            await kube.create(resource, body, "default")
            await kube.delete(resource, body["metadata"]["name"], "default")
            await asyncio.sleep(0.1)
