"""Machines that join by kubeadm: a token of their own, the cluster's hash, and the token in nothing that is told."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from lab.cluster.pki import Authority
from sparewheel.api.gpu_pool import KubeadmJoin
from sparewheel.capacity.backends.kubeadm import Door, new_token, open_door
from sparewheel.capacity.backends.machines import CommandFailedError, MachinesProvider
from sparewheel.capacity.port import CapacityError, JoinRequest, Taint, UnreachableError
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import CONFIG_MAP, SECRET
from stacks.machines import wrong_machines
from tests.support.clocks import StillClock
from tests.support.ssh_yard import SshYard, ssh_yard

SPKI = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
TOKEN = "abcdef.CANARY0123456789"
REQUEST = JoinRequest("gpu-1", "gpu-1", {"a/b": "c", "d": ""}, [Taint("k/t"), Taint("u", "NoExecute", "v")])


@pytest.fixture
async def yard() -> AsyncIterator[SshYard]:
    async with ssh_yard("gpu-1") as found:
        yield found


async def door() -> Door:
    return Door("192.0.2.10:6443", "sha256:00ff", TOKEN)


def provider_of(yard: SshYard, open_: Callable[[], Awaitable[Door]] | None = door, **given: Any) -> MachinesProvider:
    backend = yard.backend(kubeadm=KubeadmJoin(ignore_preflight_errors=["SystemVerification"]), **given)
    return MachinesProvider(backend, yard.client_key, yard.client_key, open_)


def cluster_info(pem: bytes, server: str = "https://192.0.2.10:6443") -> dict[str, Any]:
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(pem).decode()}
    text = json.dumps({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": cluster}]})
    return {"metadata": {"name": "cluster-info", "namespace": "kube-public"}, "data": {"kubeconfig": text}}


async def test_a_machine_joins_tainted_with_its_labels(yard: SshYard) -> None:
    await provider_of(yard).join(REQUEST)
    document = json.loads(yard.documents[0])
    assert document["discovery"]["bootstrapToken"] == {
        "apiServerEndpoint": "192.0.2.10:6443",
        "caCertHashes": ["sha256:00ff"],
        "token": TOKEN,
    }
    node = document["nodeRegistration"]
    assert node["taints"] == [
        {"key": "k/t", "value": "", "effect": "NoSchedule"},
        {"key": "u", "value": "v", "effect": "NoExecute"},
    ]
    assert {one["name"]: one["value"] for one in node["kubeletExtraArgs"]} == {
        "provider-id": "machines://gpu-1",
        "node-labels": "a/b=c,d=",
    }
    assert node["ignorePreflightErrors"] == ["SystemVerification"]


async def test_the_token_is_in_no_command(yard: SshYard) -> None:
    provider = provider_of(yard)
    await provider.join(REQUEST)
    await provider.leave("gpu-1")
    assert len(yard.commands) == 2
    assert "CANARY" not in str(yard.commands)
    assert "CANARY" not in repr(await door())


async def test_the_same_join_has_the_same_mark_and_another_has_another(yard: SshYard) -> None:
    provider = provider_of(yard)
    for labels in ({"a": "b"}, {"a": "b"}, {"a": "c"}):
        await provider.join(JoinRequest("gpu-1", "gpu-1", labels, []))
    one, same, other = (command.split()[-1] for _, command in yard.commands)
    assert one == same
    assert one != other


@pytest.mark.parametrize("trouble", ["broken", "hang"])
async def test_the_token_is_in_no_error_and_no_log(
    yard: SshYard, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    yard.hang, yard.broken = trouble == "hang", f"kubeadm join failed: token {TOKEN} is not known"
    provider = provider_of(yard, timeout_seconds=1.0 if trouble == "hang" else 10.0)
    expected = UnreachableError if trouble == "hang" else CommandFailedError
    with pytest.raises(expected, match=r"machine gpu-1 .*'kubeadm join'") as caught:
        await provider.join(REQUEST)
    assert "CANARY" not in "".join(traceback.format_exception(caught.value)) + caplog.text


async def test_a_machine_that_is_off_is_named(yard: SshYard) -> None:
    provider = provider_of(yard)
    provider.backend.machines[0].ssh.port = 1
    with pytest.raises(UnreachableError, match=r"machine gpu-1 .* can't be reached"):
        await provider.join(REQUEST)


async def test_no_token_is_made_for_a_machine_that_is_not_in_the_inventory(yard: SshYard) -> None:
    async def never() -> Door:
        raise AssertionError

    with pytest.raises(CapacityError, match="gpu-9 is not in the pool's inventory"):
        await provider_of(yard, never).join(JoinRequest("gpu-9", "gpu-9", {}, []))


async def test_the_door_is_a_fresh_token_that_expires_and_the_clusters_own_hash(tmp_path: Path) -> None:
    clock, kube = StillClock(), MemoryKube()
    pem = Authority(tmp_path).certificate_path.read_bytes()
    kube.put(CONFIG_MAP, cluster_info(pem))
    first, second = await open_door(kube, clock), await open_door(kube, clock)
    assert first.token != second.token
    assert first.endpoint == "192.0.2.10:6443"
    spki = x509.load_pem_x509_certificate(pem).public_key().public_bytes(*SPKI)
    assert first.ca_hash == f"sha256:{hashlib.sha256(spki).hexdigest()}"
    identifier, _, secret = first.token.partition(".")
    made = kube.peek(SECRET, f"bootstrap-token-{identifier}", "kube-system")
    assert made is not None
    assert made["type"] == "bootstrap.kubernetes.io/token"
    data = made["stringData"]
    assert (data["token-id"], data["token-secret"]) == (identifier, secret)
    until = datetime.fromisoformat(data["expiration"])
    assert timedelta(0) < until - clock.now() <= timedelta(minutes=15)


async def test_a_cluster_that_kubeadm_did_not_make_is_told_so() -> None:
    kube = MemoryKube()
    with pytest.raises(CapacityError, match="kubeadm did not make this cluster"):
        await open_door(kube, StillClock())
    kube.put(CONFIG_MAP, cluster_info(b"no certificate"))
    with pytest.raises(CapacityError, match="doesn't say where the cluster is"):
        await open_door(kube, StillClock())
    assert (await kube.list(SECRET)).items == []


def test_a_token_is_of_the_form_that_kubernetes_takes() -> None:
    token = new_token()
    assert [len(part) for part in token.split(".")] == [6, 16]
    assert token.replace(".", "").isalnum()
    assert token == token.lower()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"join_command": "x {node} {labels} {taints}"}, "join_command and kubeadm are both there"),
        ({"leave_command": "x"}, "leave_command and kubeadm are both there"),
        ({"timeout_seconds": 10.0}, "60 at least"),
        ({"kubeadm": KubeadmJoin(ignore_preflight_errors=["all"])}, "is no name of one check"),
    ],
)
async def test_settings_that_cannot_be_meant_are_refused(yard: SshYard, changes: dict[str, Any], said: str) -> None:
    given = yard.backend(kubeadm=KubeadmJoin(), timeout_seconds=60.0).model_dump(exclude_unset=True)
    right = type(yard.backend()).model_validate({"kind": "machines", **given, "kubeadm": {}})
    assert wrong_machines(right) == ""
    assert said in wrong_machines(type(right).model_validate({**right.model_dump(exclude_unset=True), **changes}))
