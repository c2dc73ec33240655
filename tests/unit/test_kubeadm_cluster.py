"""A cluster by kubeadm: what its settings may be, and the documents and scripts that come of them."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from components.kubeadm import command, documents
from stacks.kubeadm import KubeadmCluster
from stacks.platform import Cluster

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


def raw(**changes: Any) -> dict[str, Any]:
    host = {"name": "cp-1", "ssh": {"address": "192.0.2.10", "host_key": KEY}, "key_secret": "cp-ssh"}
    return {"kind": "kubeadm", "kubernetes_version": "1.36.3", "control_plane": host, **changes}


def cluster(**changes: Any) -> KubeadmCluster:
    found = TypeAdapter[Cluster](Cluster).validate_python(raw(**changes))
    assert isinstance(found, KubeadmCluster)
    return found


def parts(config: KubeadmCluster) -> dict[str, dict[str, Any]]:
    """The documents by kind."""
    return {body["kind"]: body for body in map(json.loads, documents(config).split("\n---\n"))}


def host(**changes: Any) -> dict[str, Any]:
    return {**raw()["control_plane"], **changes}


def ssh(**changes: Any) -> dict[str, Any]:
    return {**raw()["control_plane"]["ssh"], **changes}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"kubernetes_version": "v1.36"}, "kubernetes_version"),
    ({"control_plane": host(ssh={"address": "192.0.2.10"})}, "host_key|hostKey"),
    ({"control_plane": host(ssh=ssh(host_key="ssh-ed25519 AAAA"))}, "cut short"),
    ({"control_plane": host(ssh=ssh(address="a b"))}, "no host name or IP address"),
    ({"control_plane": host(key_secret="-----BEGIN")}, "key_secret"),
    ({"control_plane": host(advertise_address="cp-1.example")}, "is no IP address"),
    ({"pod_cidr": "10.244.0.1/16"}, "is no network"),
    ({"pod_cidr": "10.96.4.0/22"}, "overlap"),
    ({"service_cidr": "192.0.2.0/24"}, "holds the control plane's own address"),
    ({"endpoint": "https://cp.example:6443"}, "endpoint"),
    ({"ignore_preflight_errors": ["all"]}, "would hide what really is in the way"),
    ({"skip_phases": ["addon/coredns; reboot"]}, "skip_phases"),
    ({"settings": {"JoinConfiguration": {}}}, "is none of kubeadm's documents here"),
    ({"settings": {"ClusterConfiguration": {"networking": {"podSubnet": "x"}}}}, "write pod_cidr"),
    ({"settings": {"InitConfiguration": {"bootstrapTokens": []}}}, "a token of its own"),
    ({"settings": {"KubeletConfiguration": {"kind": "x"}}}, "leave it away"),
    ({"timeout_seconds": 5}, "timeout_seconds"),
    ({"rerun": "it's; reboot"}, "rerun"),
    ({"sise": 3}, "sise"),
]


@pytest.mark.parametrize(("changes", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_is_wrong_is_said(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        cluster(**changes)


def test_the_documents_say_what_the_file_says() -> None:
    found = parts(cluster(skip_phases=["addon/kube-proxy"], ignore_preflight_errors=["SystemVerification"]))
    init, whole = found["InitConfiguration"], found["ClusterConfiguration"]
    assert init["nodeRegistration"] == {"name": "cp-1", "ignorePreflightErrors": ["SystemVerification"]}
    assert init["skipPhases"] == ["addon/kube-proxy"]
    assert whole["kubernetesVersion"] == "v1.36.3"
    assert whole["controlPlaneEndpoint"] == "192.0.2.10:6443"
    assert whole["networking"] == {"podSubnet": "10.244.0.0/16", "serviceSubnet": "10.96.0.0/16"}
    assert set(found) == {"InitConfiguration", "ClusterConfiguration"}


def test_no_token_outlives_the_making() -> None:
    """kubeadm init makes one unasked, and prints it; a host that joins gets its own."""
    tokens = parts(cluster())["InitConfiguration"]["bootstrapTokens"]
    assert [token["ttl"] for token in tokens] == ["1m0s"]
    assert "token" not in tokens[0]


def test_more_settings_are_put_beside_ours() -> None:
    config = cluster(
        endpoint="api.example:443",
        control_plane=host(takes_pods=True, advertise_address="192.0.2.99"),
        settings={
            "InitConfiguration": {
                "nodeRegistration": {"criSocket": "unix:///x.sock"},
                "localAPIEndpoint": {"bindPort": 1},
            },
            "ClusterConfiguration": {"networking": {"dnsDomain": "c.example"}, "imageRepository": "r.example"},
            "KubeletConfiguration": {"failSwapOn": False},
        },
    )
    found = parts(config)
    node = found["InitConfiguration"]["nodeRegistration"]
    assert (node["criSocket"], node["taints"]) == ("unix:///x.sock", [])
    assert found["InitConfiguration"]["localAPIEndpoint"] == {"advertiseAddress": "192.0.2.99", "bindPort": 1}
    assert found["ClusterConfiguration"]["controlPlaneEndpoint"] == "api.example:443"
    assert found["ClusterConfiguration"]["networking"]["dnsDomain"] == "c.example"
    assert found["ClusterConfiguration"]["networking"]["podSubnet"] == "10.244.0.0/16"
    assert found["KubeletConfiguration"]["failSwapOn"] is False
    assert found["KubeletConfiguration"]["apiVersion"] == "kubelet.config.k8s.io/v1beta1"


def test_the_script_is_one_word_for_any_shell_and_by_sudo_for_others_than_root() -> None:
    words = shlex.split(command(cluster(), "init"))
    assert words[:2] == ["sh", "-c"]
    assert words[3:] == ["control_plane", "init", "600", "1.36.3"]
    assert shlex.split(command(cluster(control_plane=host(ssh=ssh(user="ops"))), "reset"))[:3] == ["sudo", "-n", "sh"]


def test_another_rerun_changes_the_reading_alone() -> None:
    one, two = cluster(), cluster(rerun="after kubeadm certs renew")
    assert command(one, "again") != command(two, "again")
    assert command(one, "reset") == command(two, "reset")
