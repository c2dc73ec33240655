"""What the controller may make among the Secrets, on a real API server: tokens for hosts that join, which expire."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lab.api_server import with_token
from lab.cluster.pki import Authority
from sparewheel.api.token_admission import token_admission_manifests
from sparewheel.capacity.backends.kubeadm import open_door
from sparewheel.clock import SystemClock
from sparewheel.kube.client import KubeClient
from sparewheel.kube.install import apply
from sparewheel.kube.port import CONFIG_MAP, NAMESPACE_KIND, SECRET, InvalidError, Json
from tests.api.test_action_admission import token_of_the_controller
from tests.kube_contract import unique
from tests.unit.capacity.test_kubeadm import cluster_info

SYSTEM = "kube-system"


def secret(kind: str = "Opaque", **data: str) -> Json:
    return {"metadata": {"name": unique("secret")}, "type": kind, "stringData": data}


def token(**changes: str) -> Json:
    group = "system:bootstrappers:kubeadm:default-node-token"
    data = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "auth-extra-groups": group}
    return secret("bootstrap.kubernetes.io/token", **data, **changes)


@pytest.fixture
async def controller_token(kube: KubeClient) -> str:
    return await token_of_the_controller(kube, token_admission_manifests())


async def test_the_controller_makes_a_door_and_nothing_else(
    kube: KubeClient, api_server: Path, controller_token: str, tmp_path: Path
) -> None:
    await apply(kube, NAMESPACE_KIND, {"metadata": {"name": "kube-public"}})
    info = cluster_info(Authority(tmp_path).certificate_path.read_bytes())
    await apply(kube, CONFIG_MAP, info, "kube-public")
    async with KubeClient(with_token(api_server, controller_token)) as controller:
        async with asyncio.timeout(30):
            while True:  # a new policy is in force a moment later
                try:
                    await controller.create(SECRET, secret(), SYSTEM)
                    await asyncio.sleep(0.2)
                except InvalidError as error:
                    assert "no Secret but a token" in str(error)  # noqa: PT017 - the message is the test
                    break
        until = "2030-01-01T00:00:00Z"
        refused: list[tuple[Json, str]] = [
            (secret("kubernetes.io/service-account-token"), SYSTEM),
            (token(), SYSTEM),
            (token(expiration=until) | {"type": "Opaque"}, SYSTEM),
            (token(expiration=until), "default"),
        ]
        masters = token(expiration=until)
        masters["stringData"]["auth-extra-groups"] = "system:bootstrappers:others"
        for body, namespace in (*refused, (masters, SYSTEM)):
            with pytest.raises(InvalidError):
                await controller.create(SECRET, body, namespace)
        door = await open_door(controller, SystemClock())
    made = await kube.get(SECRET, f"bootstrap-token-{door.token.partition('.')[0]}", SYSTEM)
    assert made["type"] == "bootstrap.kubernetes.io/token"
    await kube.create(SECRET, secret(), SYSTEM)  # others are not asked
