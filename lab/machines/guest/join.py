"""host-join: make this host a node of the cluster. Idempotent; returns when the kubelet is healthy.

usage: host-join --node-name NAME [--label K=V]... [--taint K=V:EFFECT]...
       host-join --again      what the last join said, nothing when there was none (run at boot)
"""

import argparse
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

from lab.machines.guest.files import CONTAINERD_SOCKET, POD_CGROUP, SUPERVISOR_RUN
from lab.machines.guest.state import (
    Membership,
    host_name,
    kubelet_is_healthy,
    load_membership,
    membership_lock,
    own_address,
)
from lab.machines.guest.units import boot_units, cluster_units
from lab.supervisor.client import Supervisor

START_SECONDS = 120.0
TAINT = re.compile(r"^(?P<key>[^=:]+)(=(?P<value>[^:]*))?:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute)$")
LABEL = re.compile(r"^[^=]+=[^=]*$")


def parse_taint(text: str) -> dict[str, str]:
    """`key=value:Effect` or `key:Effect`."""
    match = TAINT.match(text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not key=value:Effect with NoSchedule, PreferNoSchedule or NoExecute"
        )
    return {"key": match["key"], "value": match["value"] or "", "effect": match["effect"]}


def parse_label(text: str) -> str:
    """`key=value`."""
    if not LABEL.match(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return text


def kubelet_config(membership: Membership) -> dict[str, Any]:
    """The kubelet's configuration; the cgroup settings suit a host inside a machine, on cgroup v1 too."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{POD_CGROUP}",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "clusterDomain": "cluster.local",
        "clusterDNS": ["10.77.0.1"],
        "resolvConf": "/etc/resolv.conf",
        "podLogsDir": "/var/log/pods",
        # A new user's account, a file of a ConfigMap, is in every running pod within half a minute instead of two.
        "syncFrequency": "20s",
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi"},
        "providerID": f"machines://{membership.node_name}",
        "registerWithTaints": [parse_taint(t) for t in membership.taints],
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "maxPods": 110,
    }


def proxy_config(membership: Membership, ip: str) -> dict[str, Any]:
    """kube-proxy's configuration; conntrack settings stay the machine's."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": "10.78.0.0/16",
        "hostnameOverride": membership.node_name,
        "bindAddress": ip,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "clientConnection": {"kubeconfig": "/etc/kubernetes/kube-proxy.conf"},
    }


def join(membership: Membership) -> None:
    """Write the configuration and start the daemons; a running kubelet whose configuration changed is restarted."""
    ip = own_address()
    etc = Path("/etc/kubernetes")
    changed = write_json(etc / "kubelet.json", kubelet_config(membership))
    write_json(etc / "kube-proxy.json", proxy_config(membership, ip))
    membership.save()
    supervisor = Supervisor(Path(SUPERVISOR_RUN))
    supervisor.start(next(u for u in boot_units() if u.name == "containerd"))
    wait(Path(CONTAINERD_SOCKET).exists, "containerd did not make its socket; see /var/log/containerd.log")
    if changed:
        supervisor.stop("kubelet")
    for unit in cluster_units(membership.node_name, ip, membership.labels):
        supervisor.start(unit)
    wait(kubelet_is_healthy, "the kubelet did not become healthy; see /var/log/kubelet.log")


def write_json(path: Path, content: dict[str, Any]) -> bool:
    """Write it; True when that changed the file."""
    text = json.dumps(content, indent=1)
    if path.exists() and path.read_text() == text:
        return False
    path.write_text(text)
    return True


def wait(condition: Any, otherwise: str) -> None:
    """Poll until it holds; exit with `otherwise` after START_SECONDS."""
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"{host_name()}: {otherwise}")
        time.sleep(0.1)


def main() -> None:
    """Parse, check the name, join."""
    parser = argparse.ArgumentParser("host-join", description="Make this host a node of the cluster.")
    parser.add_argument("--node-name", help="must be the host's own name, for which its certificate stands")
    parser.add_argument("--label", action="append", default=[], type=parse_label, metavar="K=V")
    parser.add_argument("--taint", action="append", default=[], metavar="K=V:EFFECT")
    parser.add_argument("--again", action="store_true", help="join as the last time; nothing when this host has left")
    arguments = parser.parse_args()
    if arguments.again:
        with membership_lock():
            membership = load_membership()
            if membership is not None:
                join(membership)
        return
    name = arguments.node_name or host_name()
    if name != host_name():
        parser.error(f"this host's certificate stands for {host_name()}, not for {name}; use --node-name {host_name()}")
    for taint in arguments.taint:
        try:
            parse_taint(taint)
        except argparse.ArgumentTypeError as error:
            parser.error(str(error))
    with membership_lock():
        join(Membership(name, arguments.label, arguments.taint))


if __name__ == "__main__":
    main()
