"""The stack of the data centre as bare machines get it: a cluster by kubeadm, hosts that join by it, the rest alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.machines.guest.files import CONTAINERD_SOCKET, POD_CGROUP
from lab.machines.inventory import CLUSTER_DOMAIN, MACHINE_IP, POD_NETWORK, RACK_ONCALL_PORT, Inventory
from lab.rack.images import DNS_TAG, ETCD_TAG, REPOSITORY
from lab.toolchain.tools import KUBERNETES_VERSION

KEY_SECRET = "control-plane-ssh"
SERVICES = "10.97.0.0/16"
JOIN_SECONDS = 240
IGNORED = ("SystemVerification",)
"""The one check that can't hold: these hosts' cgroups are v1. All others of kubeadm's do."""


def on_bare_metal(config: dict[str, Any], inventory: Inventory, host_keys: Mapping[str, str]) -> None:
    """Change the stack's config in place where the machines are bare; the machines' keys are filled in afterwards."""
    if not inventory.is_rack:
        return
    control, *others = inventory.hosts
    config["sparewheel:cluster"] = {
        "kind": "kubeadm",
        "kubernetes_version": KUBERNETES_VERSION,
        "pod_cidr": POD_NETWORK,
        "service_cidr": SERVICES,
        "network": "lab/rack/network",
        "control_plane": {
            "name": control.name,
            "ssh": {"address": control.ip, "host_key": host_keys[control.name]},
            "key_secret": KEY_SECRET,
            "advertise_address": control.ip,
            "takes_pods": True,
        },
        "skip_phases": ["addon/kube-proxy"],
        "ignore_preflight_errors": list(IGNORED),
        "settings": _settings(),
        "protect": False,
    }
    config["sparewheel:login"]["service"]["address"] = control.ip
    pool = config["sparewheel:pools"][0]
    pool["size"], pool["spares"] = min(2, len(others)), max(0, len(others) - 2)
    backend = pool["backend"]
    backend["machines"] = [{"name": host.name, "ssh": {"address": host.ip}} for host in others]
    backend["kubeadm"] = {"ignore_preflight_errors": list(IGNORED)}
    backend["timeout_seconds"] = JOIN_SECONDS
    backend["power"]["ssh"]["port"] = inventory.power_port


def more_secrets(inventory: Inventory, secrets: Mapping[str, str]) -> dict[str, str]:
    """What the stack on bare machines names beside, or otherwise."""
    if not inventory.is_rack:
        return {}
    return {KEY_SECRET: secrets["machines-ssh"], "oncall-url": f"http://{MACHINE_IP}:{RACK_ONCALL_PORT}/hook"}


def _settings() -> dict[str, Any]:
    """kubeadm's documents beyond what a stack's file has settings for: facts about these hosts."""
    return {
        "InitConfiguration": {"nodeRegistration": {"criSocket": f"unix://{CONTAINERD_SOCKET}"}},
        "ClusterConfiguration": {
            "imageRepository": REPOSITORY,
            "dns": {"imageTag": DNS_TAG},
            "etcd": {"local": {"imageTag": ETCD_TAG}},
            "networking": {"dnsDomain": CLUSTER_DOMAIN},
            # each host brings its own pod network
            "controllerManager": {"extraArgs": [{"name": "allocate-node-cidrs", "value": "false"}]},
        },
        "KubeletConfiguration": {
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{POD_CGROUP}",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": ["none"],
            "failCgroupV1": False,
            "failSwapOn": False,
            "resolvConf": "/etc/resolv.conf",
            "syncFrequency": "20s",
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "100Mi"},
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        },
    }
