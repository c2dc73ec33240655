"""The agents' admission policy with real tokens, bound to real pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lab.api_server import with_token
from sparewheel.api.admission import admission_manifests
from sparewheel.api.names import AGENT_ACCOUNT, NAMESPACE
from sparewheel.kube.client import KubeClient
from sparewheel.kube.install import ADMISSION_BINDING, ADMISSION_POLICY, apply
from sparewheel.kube.port import NAMESPACE_KIND, NODE, NODE_HEALTH, POD, InvalidError, Json, NotFoundError, Resource
from tests.kube_contract import pod, unique

ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount")
TOKEN = Resource("", "v1", f"serviceaccounts/{AGENT_ACCOUNT}/token", "TokenRequest")
ROLE = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
ROLE_BINDING = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False)


@pytest.fixture
async def policy(kube: KubeClient, crds: None) -> None:
    """The policy in force, and an agents' account that RBAC lets do more than it should."""
    await apply(kube, NAMESPACE_KIND, {"metadata": {"name": NAMESPACE}})
    await apply(kube, ACCOUNT, {"metadata": {"name": AGENT_ACCOUNT}}, NAMESPACE)
    rules = [
        {"apiGroups": ["sparewheel.dev"], "resources": ["nodehealths", "nodehealths/status"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["*"]},
    ]
    await apply(kube, ROLE, {"metadata": {"name": "agents"}, "rules": rules})
    binding: Json = {
        "metadata": {"name": "agents"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "agents"},
        "subjects": [{"kind": "ServiceAccount", "name": AGENT_ACCOUNT, "namespace": NAMESPACE}],
    }
    await apply(kube, ROLE_BINDING, binding)
    policy, bound = admission_manifests()
    await apply(kube, ADMISSION_POLICY, policy)
    await apply(kube, ADMISSION_BINDING, bound)


async def bound_token(kube: KubeClient, node: str) -> str:
    """A token as the kubelet would give it to an agent's pod on ``node``."""
    await kube.create(NODE, {"metadata": {"name": node}})
    body = pod(unique("agent"), node)
    body["spec"]["serviceAccountName"] = AGENT_ACCOUNT
    agent = await kube.create(POD, body, NAMESPACE)
    reference = {"kind": "Pod", "apiVersion": "v1", "name": agent["metadata"]["name"], "uid": agent["metadata"]["uid"]}
    return await request_token(kube, {"boundObjectRef": reference})


async def request_token(kube: KubeClient, spec: Json) -> str:
    body: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": spec}
    return str((await kube.create(TOKEN, body, NAMESPACE))["status"]["token"])


@pytest.fixture
async def agent(kube: KubeClient, api_server: Path, policy: None) -> AsyncIterator[tuple[KubeClient, str]]:
    """An agent's client, and its node's name; returned once the policy is in force."""
    node = unique("node")
    token = await bound_token(kube, node)
    async with KubeClient(with_token(api_server, token)) as client:
        async with asyncio.timeout(30):
            while True:
                probe = health(unique("probe"))
                try:
                    await client.create(NODE_HEALTH, probe)
                except InvalidError:
                    break
                await kube.delete(NODE_HEALTH, probe["metadata"]["name"])
                await asyncio.sleep(0.2)
        yield client, node


def health(node: str) -> Json:
    return {
        "apiVersion": "sparewheel.dev/v1alpha1",
        "kind": "NodeHealth",
        "metadata": {"name": node},
    }


async def test_an_agent_reports_its_own_node(agent: tuple[KubeClient, str]) -> None:
    client, node = agent
    await client.create(NODE_HEALTH, health(node))
    await client.merge_patch(NODE_HEALTH, node, {"status": {"bootId": "b"}}, subresource="status")
    condition = {"type": "GpuHealthy", "status": "True", "reason": "AllGpusHealthy"}
    await client.merge_patch(NODE, node, {"status": {"conditions": [condition]}}, subresource="status")


async def test_an_agent_writes_nothing_about_another_node(agent: tuple[KubeClient, str], kube: KubeClient) -> None:
    client, node = agent
    other = unique("node")
    await kube.create(NODE, {"metadata": {"name": other}})
    await kube.create(NODE_HEALTH, health(other))
    refusal = f"the agent of node {node} writes nothing about node {other}"
    patch: Json = {"status": {"bootId": "forged"}}
    with pytest.raises(InvalidError, match=refusal):
        await client.merge_patch(NODE_HEALTH, other, patch, subresource="status")
    with pytest.raises(InvalidError, match=refusal):
        await client.merge_patch(NODE, other, {"status": {"phase": "Running"}}, subresource="status")
    with pytest.raises(InvalidError, match=refusal):
        await client.delete(NODE_HEALTH, other)
    await kube.delete(NODE_HEALTH, other)
    with pytest.raises(InvalidError, match=refusal):
        await client.create(NODE_HEALTH, health(other))
    with pytest.raises(NotFoundError):
        await kube.get(NODE_HEALTH, other)


async def test_an_agent_writes_nothing_but_status_of_its_node(agent: tuple[KubeClient, str]) -> None:
    client, node = agent
    with pytest.raises(InvalidError, match="status only"):
        await client.merge_patch(NODE, node, {"spec": {"unschedulable": True}})
    with pytest.raises(InvalidError, match="status only"):
        await client.delete(NODE, node)


async def test_a_token_of_no_node_writes_nothing(
    agent: tuple[KubeClient, str], kube: KubeClient, api_server: Path
) -> None:
    _, node = agent
    token = await request_token(kube, {})
    async with KubeClient(with_token(api_server, token)) as loose:
        with pytest.raises(InvalidError, match="not bound to a node"):
            await loose.create(NODE_HEALTH, health(node))


async def test_others_are_not_concerned(agent: tuple[KubeClient, str], kube: KubeClient) -> None:
    _, node = agent
    await kube.merge_patch(NODE, node, {"spec": {"unschedulable": True}})
    await kube.create(NODE_HEALTH, health(node))
