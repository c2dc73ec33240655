"""A host's disk: the folders that survive a power cycle, made once per host."""

import shutil
import uuid
from pathlib import Path

from lab.cluster.control_plane import SERVER
from lab.cluster.kubeconfig import kubeconfig
from lab.cluster.pki import Authority
from lab.machines.guest.files import CONTAINERD_CONFIG, SSHD_CONFIG
from lab.machines.inventory import CLUSTER_DOMAIN, MACHINE_IP, Host, Inventory
from lab.machines.kmsg import start_log
from lab.paths import Paths

VAR_FOLDERS = (
    "cache",
    "lib/kubelet",
    "lib/containerd",
    "lib/cni",
    "log/pods",
    "log/containers",
    "spool",
    "mail",
    "tmp",
)
NOT_COPIED = ("ssh_host_*", "authorized_keys*", "kubernetes", "containerd", "machine-id", "shadow-", "gshadow-")


def make_disk(paths: Paths, host: Host, inventory: Inventory, authority: Authority | None) -> None:
    """Folders, identity, credentials and keys of a host; what is there is kept. No authority: it knows no cluster."""
    disk = paths.disk(host.name)
    for folder in VAR_FOLDERS:
        (disk / "var" / folder).mkdir(parents=True, exist_ok=True)
    (disk / "var/tmp").chmod(0o1777)
    for name, target in (("run", "/run"), ("lock", "/run/lock")):
        link = disk / "var" / name
        if not link.is_symlink():
            link.symlink_to(target)
    if not (disk / "etc").exists():
        part = disk / "etc.part"
        shutil.rmtree(part, ignore_errors=True)
        _make_etc(part, host)
        part.rename(disk / "etc")
    _write_network_names(disk / "etc", inventory)
    _write_access(paths, disk, host.name)
    if authority is not None:
        _write_cluster_files(paths, disk, host, authority)
    _write_runtime_files(disk, host)
    if not (disk / "var/log/kmsg").exists():
        start_log(disk / "var/log/kmsg", host.gpus)


def _make_etc(etc: Path, host: Host) -> None:
    shutil.copytree(
        "/etc", etc, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED), ignore_dangling_symlinks=True
    )
    (etc / "hostname").write_text(f"{host.name}\n")
    (etc / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
    shadow = etc / "shadow"
    if shadow.exists():
        lines = shadow.read_text().splitlines()
        shadow.write_text("".join(("root:*:20000:0:99999:7:::" if x.startswith("root:") else x) + "\n" for x in lines))
        shadow.chmod(0o600)


def _write_network_names(etc: Path, inventory: Inventory) -> None:
    names = "\n".join(f"{h.ip} {h.name}" for h in inventory.hosts)
    _put(etc / "hosts", f"127.0.0.1 localhost\n{names}\n")
    _put(etc / "resolv.conf", f"nameserver {MACHINE_IP}\nsearch {CLUSTER_DOMAIN}\n")


def _write_access(paths: Paths, disk: Path, host: str) -> None:
    root = disk / "root"
    keys = root / ".ssh"
    keys.mkdir(parents=True, exist_ok=True)
    root.chmod(0o700)
    keys.chmod(0o700)
    _put(keys / "authorized_keys", (paths.ssh / "id_ed25519.pub").read_text(), 0o600)
    ssh = disk / "etc/ssh"
    ssh.mkdir(exist_ok=True)
    for name, mode in (("ssh_host_ed25519_key", 0o600), ("ssh_host_ed25519_key.pub", 0o644)):
        _put(ssh / name, (paths.host(host) / name).read_text(), mode)
    _put(ssh / "machine.conf", SSHD_CONFIG)


def _write_cluster_files(paths: Paths, disk: Path, host: Host, authority: Authority) -> None:
    pair = f"kubelet-{host.name}"
    authority.issue(pair, f"system:node:{host.name}", ["system:nodes"])
    kubernetes = disk / "etc/kubernetes"
    (kubernetes / "pki").mkdir(parents=True, exist_ok=True)
    _put(kubernetes / "pki/ca.crt", authority.certificate_path.read_text())
    own = kubeconfig(SERVER, paths.pki, pair, f"system:node:{host.name}")
    _put(kubernetes / "kubelet.conf", own, 0o600)
    proxy = kubeconfig(SERVER, paths.pki, "kube-proxy", "system:kube-proxy")
    _put(kubernetes / "kube-proxy.conf", proxy, 0o600)


def _write_runtime_files(disk: Path, host: Host) -> None:
    containerd = disk / "etc/containerd"
    containerd.mkdir(exist_ok=True)
    _put(containerd / "config.toml", CONTAINERD_CONFIG)
    cni = disk / "etc/cni/net.d"
    cni.mkdir(parents=True, exist_ok=True)
    _put(cni / "10-bridge.conflist", CNI_CONFIG.replace("POD_NETWORK", host.pod_network))


def _put(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file of a host that may be running: whole or not at all, and not when it says so already."""
    if path.exists() and not path.is_symlink() and path.read_text() == text:
        return
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    part.chmod(mode)
    part.rename(path)


CNI_CONFIG = """{
 "cniVersion": "1.0.0",
 "name": "pods",
 "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "/var/lib/cni/networks",
            "ranges": [[{"subnet": "POD_NETWORK"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
 ]
}
"""
