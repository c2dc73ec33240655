"""A host's disk: the folders that survive a power cycle, made once per host."""

import shutil
import uuid
from pathlib import Path

from lab.cluster.control_plane import SERVER
from lab.cluster.kubeconfig import write_kubeconfig
from lab.cluster.pki import Authority
from lab.machines.guest.files import CONTAINERD_CONFIG
from lab.machines.guest.units import write_sshd_config
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


def make_disk(paths: Paths, host: Host, inventory: Inventory, authority: Authority) -> None:
    """Folders, identity, credentials and keys of a host; what is there is kept."""
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
    _write_cluster_files(paths, disk, host, authority)
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
    _replace(etc / "hosts", f"127.0.0.1 localhost\n{names}\n")
    _replace(etc / "resolv.conf", f"nameserver {MACHINE_IP}\nsearch {CLUSTER_DOMAIN}\n")


def _write_access(paths: Paths, disk: Path, host: str) -> None:
    root = disk / "root"
    keys = root / ".ssh"
    keys.mkdir(parents=True, exist_ok=True)
    root.chmod(0o700)
    keys.chmod(0o700)
    (keys / "authorized_keys").write_text((paths.ssh / "id_ed25519.pub").read_text())
    (keys / "authorized_keys").chmod(0o600)
    ssh = disk / "etc/ssh"
    ssh.mkdir(exist_ok=True)
    for name in ("ssh_host_ed25519_key", "ssh_host_ed25519_key.pub"):
        shutil.copy2(paths.host(host) / name, ssh / name)
    write_sshd_config(disk / "etc")


def _write_cluster_files(paths: Paths, disk: Path, host: Host, authority: Authority) -> None:
    pair = f"kubelet-{host.name}"
    authority.issue(pair, f"system:node:{host.name}", ["system:nodes"])
    kubernetes = disk / "etc/kubernetes"
    (kubernetes / "pki").mkdir(parents=True, exist_ok=True)
    shutil.copy2(authority.certificate_path, kubernetes / "pki/ca.crt")
    write_kubeconfig(kubernetes / "kubelet.conf", SERVER, paths.pki, pair, f"system:node:{host.name}")
    write_kubeconfig(kubernetes / "kube-proxy.conf", SERVER, paths.pki, "kube-proxy", "system:kube-proxy")
    containerd = disk / "etc/containerd"
    containerd.mkdir(exist_ok=True)
    (containerd / "config.toml").write_text(CONTAINERD_CONFIG)
    cni = disk / "etc/cni/net.d"
    cni.mkdir(parents=True, exist_ok=True)
    (cni / "10-bridge.conflist").write_text(CNI_CONFIG.replace("POD_NETWORK", host.pod_network))


def _replace(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(text)


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
