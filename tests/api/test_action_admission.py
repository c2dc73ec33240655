"""Who may ask a node's helper for an action, on a real API server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lab.api_server import with_token
from sparewheel.api.action_admission import action_admission_manifests
from sparewheel.api.names import ANNOTATION_NODE_ACTION, CONTROLLER_ACCOUNT, NAMESPACE
from sparewheel.kube.client import KubeClient
from sparewheel.kube.install import ADMISSION_BINDING, ADMISSION_POLICY, apply
from sparewheel.kube.port import NAMESPACE_KIND, NODE, InvalidError, Json, Resource
from tests.kube_contract import unique

ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount")
TOKEN = Resource("", "v1", f"serviceaccounts/{CONTROLLER_ACCOUNT}/token", "TokenRequest")
ROLE_BINDING = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False)


def asks(value: str | None) -> Json:
    return {"metadata": {"annotations": {ANNOTATION_NODE_ACTION: value}}}


async def token_of_the_controller(kube: KubeClient, manifests: list[Json]) -> str:
    """The controller's account as an administrator, so that nothing but the policy of ``manifests`` is in its way."""
    await apply(kube, NAMESPACE_KIND, {"metadata": {"name": NAMESPACE}})
    await apply(kube, ACCOUNT, {"metadata": {"name": CONTROLLER_ACCOUNT}}, NAMESPACE)
    binding: Json = {
        "metadata": {"name": "controller-all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": CONTROLLER_ACCOUNT, "namespace": NAMESPACE}],
    }
    await apply(kube, ROLE_BINDING, binding)
    policy, bound = manifests
    await apply(kube, ADMISSION_POLICY, policy)
    await apply(kube, ADMISSION_BINDING, bound)
    body: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": {}}
    return str((await kube.create(TOKEN, body, NAMESPACE))["status"]["token"])


@pytest.fixture
async def controller_token(kube: KubeClient) -> str:
    return await token_of_the_controller(kube, action_admission_manifests())


async def test_only_the_controller_asks_and_anybody_takes_back(
    kube: KubeClient, api_server: Path, controller_token: str
) -> None:
    node = unique("node")
    await kube.create(NODE, {"metadata": {"name": node}})
    async with asyncio.timeout(30):
        while True:  # a new policy is in force a moment later
            try:
                await kube.merge_patch(NODE, node, asks("x"))
                await kube.merge_patch(NODE, node, asks(None))
                await asyncio.sleep(0.2)
            except InvalidError as error:
                assert "only the controller" in str(error)  # noqa: PT017 - the message is the test
                break
    with pytest.raises(InvalidError, match="only the controller"):
        await kube.merge_patch(NODE, node, asks("x"), subresource="status")
    with pytest.raises(InvalidError, match="only the controller"):
        await kube.create(NODE, {"metadata": {"name": unique("node"), **asks("x")["metadata"]}})
    async with KubeClient(with_token(api_server, controller_token)) as controller:
        await controller.merge_patch(NODE, node, asks("x"))
    await kube.merge_patch(NODE, node, {"metadata": {"labels": {"other": "change"}}})
    await kube.merge_patch(NODE, node, {"status": {"phase": "Running"}}, subresource="status")
    await kube.merge_patch(NODE, node, asks(None))
