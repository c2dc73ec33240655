"""What a control plane's host gets: kubeadm's documents, and the script that runs it there."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from sparewheel.api.names import BOOTSTRAPPERS
from stacks.kubeadm import KubeadmCluster

SCRIPT: Final = Path(__file__).with_name("files") / "control_plane.sh"
KUBEADM: Final = "kubeadm.k8s.io/v1beta4"
VERSIONS: Final = {
    "InitConfiguration": KUBEADM,
    "ClusterConfiguration": KUBEADM,
    "KubeletConfiguration": "kubelet.config.k8s.io/v1beta1",
    "KubeProxyConfiguration": "kubeproxy.config.k8s.io/v1alpha1",
}
TOKEN_TTL: Final = "1m0s"  # noqa: S105 - how long the token lives that kubeadm init makes unasked


def documents(config: KubeadmCluster) -> str:
    """What kubeadm init reads: JSON, which is YAML, one key a line and the same text for the same settings."""
    ours: dict[str, dict[str, Any]] = {
        "InitConfiguration": _init(config),
        "ClusterConfiguration": {
            "kubernetesVersion": f"v{config.kubernetes_version}",
            "controlPlaneEndpoint": config.api_endpoint,
            "networking": {"podSubnet": config.pod_cidr, "serviceSubnet": config.service_cidr},
        },
    }
    parts: list[str] = []
    for kind, version in VERSIONS.items():
        body = _merged(config.settings.get(kind, {}), ours.get(kind, {}))
        if body:
            parts.append(json.dumps({"apiVersion": version, "kind": kind, **body}, indent=1, sort_keys=True))
    return "\n---\n".join(parts) + "\n"


def _init(config: KubeadmCluster) -> dict[str, Any]:
    host = config.control_plane
    node: dict[str, Any] = {"name": host.name, "ignorePreflightErrors": list(config.ignore_preflight_errors)}
    if host.takes_pods:
        node["taints"] = []
    body: dict[str, Any] = {
        "bootstrapTokens": [{"groups": [BOOTSTRAPPERS], "ttl": TOKEN_TTL, "usages": ["signing", "authentication"]}],
        "nodeRegistration": node,
        "skipPhases": list(config.skip_phases),
    }
    if host.advertise_address:
        body["localAPIEndpoint"] = {"advertiseAddress": host.advertise_address}
    return body


def _merged(given: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """``given`` with ``ours`` put into it, which the config keeps apart; lists are not joined."""
    whole: dict[str, Any] = dict(given)
    for key, value in ours.items():
        before = whole.get(key)
        both = isinstance(value, dict) and isinstance(before, dict)
        whole[key] = _merged(cast("dict[str, Any]", before), cast("dict[str, Any]", value)) if both else value
    return whole


def command(config: KubeadmCluster, mode: str) -> str:
    """The script, in words for any login shell; by sudo where the user isn't root."""
    words = ["sh", "-c", SCRIPT.read_text("utf-8"), "control_plane", mode]
    words += [str(config.timeout_seconds), config.kubernetes_version]
    if config.control_plane.ssh.user != "root":
        words = ["sudo", "-n", *words]
    note = f": rerun {config.rerun}\n" if config.rerun and mode != "reset" else ""
    return note + shlex.join(words)
