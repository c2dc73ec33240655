"""The host's daemons as units of its supervisor."""

from pathlib import Path

from lab.machines.guest.files import GPU_COUNT_FILE, KUBERNETES_BIN
from lab.supervisor.unit import Unit

LOGS = "/var/log"
KUBELET_SETTINGS = "/var/lib/kubelet/config.yaml"
KUBELET_FLAGS = "/var/lib/kubelet/kubeadm-flags.env"


def boot_units() -> list[Unit]:
    """What starts with the host: sshd, containerd, and whatever the last join asks for."""
    return [
        Unit("sshd", ["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/machine.conf"], f"{LOGS}/sshd.log", autostart=True),
        Unit(
            "containerd",
            [f"{KUBERNETES_BIN}/containerd", "--config=/etc/containerd/config.toml"],
            f"{LOGS}/containerd.log",
            autostart=True,
        ),
        Unit("rejoin", ["/usr/local/sbin/host-join", "--again"], f"{LOGS}/rejoin.log", restart="never", autostart=True),
    ]


def bare_units(gpus: int) -> list[Unit]:
    """What starts with a bare host: as after installing packages, the kubelet too, which waits for its settings."""
    units = [unit for unit in boot_units() if unit.name != "rejoin"]
    units.append(kubelet_service())
    if gpus:
        plugin = [f"{KUBERNETES_BIN}/gpu-device-plugin", "--resource=nvidia.com/gpu", f"--count={gpus}"]
        units.append(Unit("gpu-device-plugin", plugin, f"{LOGS}/gpu-device-plugin.log", autostart=True))
    return units


def kubelet_service() -> Unit:
    """The kubelet as its package's service runs it: with kubeadm's settings, started again until they are there."""
    script = (
        f"[ -e {KUBELET_SETTINGS} ] || {{ sleep 1; exit 1; }}; [ ! -e {KUBELET_FLAGS} ] || . {KUBELET_FLAGS}; "
        f"exec {KUBERNETES_BIN}/kubelet --config={KUBELET_SETTINGS} --kubeconfig=/etc/kubernetes/kubelet.conf "
        "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf $KUBELET_KUBEADM_ARGS"
    )
    return Unit("kubelet", ["/bin/sh", "-c", script], f"{LOGS}/kubelet.log", autostart=True)


def cluster_units(node_name: str, ip: str, labels: list[str]) -> list[Unit]:
    """What runs while the host is joined."""
    kubelet = [
        f"{KUBERNETES_BIN}/kubelet",
        "--config=/etc/kubernetes/kubelet.json",
        "--kubeconfig=/etc/kubernetes/kubelet.conf",
        f"--hostname-override={node_name}",
        f"--node-ip={ip}",
    ]
    if labels:
        kubelet.append("--node-labels=" + ",".join(labels))
    units = [
        Unit("kubelet", kubelet, f"{LOGS}/kubelet.log"),
        Unit(
            "kube-proxy",
            [f"{KUBERNETES_BIN}/kube-proxy", "--config=/etc/kubernetes/kube-proxy.json"],
            f"{LOGS}/kube-proxy.log",
        ),
    ]
    gpus = int(Path(GPU_COUNT_FILE).read_text())
    if gpus:
        plugin = [f"{KUBERNETES_BIN}/gpu-device-plugin", "--resource=nvidia.com/gpu", f"--count={gpus}"]
        units.append(Unit("gpu-device-plugin", plugin, f"{LOGS}/gpu-device-plugin.log"))
    return units
