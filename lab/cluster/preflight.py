"""What must be true before anything is started: rights, programs, free names, addresses and ports."""

import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from lab.cluster.control_plane import ETCD_PEER_PORT, ETCD_PORT
from lab.cluster.network import check_conflicts
from lab.cluster.programs import CONTROL_PROGRAMS, HOST_PROGRAMS
from lab.machines.inventory import API_PORT
from lab.paths import Paths

DEBIAN_PROGRAMS = {
    "ip": "iproute2",
    "nft": "nftables",
    "conntrack": "conntrack",
    "runc": "runc",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
    "pivot_root": "util-linux",
    "mount": "mount",
}
SBIN = "/usr/sbin:/sbin"
HOST_PYTHON = Path("/usr/bin/python3")


class NotReadyError(RuntimeError):
    """The machine lacks something; the message says what and how to get it."""


def check_rights() -> None:
    """Root is needed for namespaces, mounts and the bridge."""
    if os.geteuid() != 0:
        raise NotReadyError(
            "the data centre needs root for namespaces, mounts and its bridge; run the command again with sudo"
        )


def check_programs(paths: Paths) -> None:
    """Debian's programs and the built ones."""
    search = f"{os.environ.get('PATH', '')}:{SBIN}"
    absent = {package for program, package in DEBIAN_PROGRAMS.items() if shutil.which(program, path=search) is None}
    if absent:
        raise NotReadyError(f"Debian packages are missing; run 'apt-get install {' '.join(sorted(absent))}'")
    if not HOST_PYTHON.exists():
        raise NotReadyError(f"hosts run {HOST_PYTHON}, which is missing; run 'apt-get install python3'")
    unbuilt = [name for name in (*CONTROL_PROGRAMS, *HOST_PROGRAMS) if not (paths.bin / name).exists()]
    if unbuilt:
        raise NotReadyError(f"{', '.join(unbuilt)} not found in {paths.bin}; run 'make setup' to build them")


def check_ports(running: Sequence[str]) -> None:
    """The fixed ports are free; those of units that run already are ours."""
    wanted = {"etcd": (ETCD_PORT, ETCD_PEER_PORT), "kube-apiserver": (API_PORT,)}
    for unit, ports in wanted.items():
        if unit in running:
            continue
        for port in ports:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("0.0.0.0" if unit == "kube-apiserver" else "127.0.0.1", port))
                except OSError:
                    raise NotReadyError(
                        f"port {port}, which {unit} needs, is in use by another program; "
                        f"find it with 'ss -ltnp sport = :{port}' and stop it"
                    ) from None


def check_all(paths: Paths, running: Sequence[str]) -> None:
    """All of it, NotReady or NetworkConflictError at the first that fails."""
    check_rights()
    check_programs(paths)
    check_conflicts()
    check_ports(running)
