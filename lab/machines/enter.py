"""Process 1 of a host until its own root is in place: mounts, name, network; then it becomes the host's supervisor.

Started in fresh mount, UTS, IPC, network, PID and cgroup namespaces.
"""

import os
import shutil
import socket
import stat
import subprocess
import sys
import time
import uuid
from pathlib import Path

from lab.cluster.programs import BARE_PROGRAMS, HOST_PROGRAMS
from lab.machines.cgroups import delegate, is_v2, make_group, v1_hierarchies
from lab.machines.gpus import device_nodes
from lab.machines.guest.files import (
    CNI_BIN,
    GPU_COUNT_FILE,
    IMAGE_STORE,
    KUBERNETES_BIN,
    MACHINE_CODE,
    POD_CGROUP,
    SEARCH_PATH,
    SUPERVISOR_RUN,
)
from lab.machines.guest.images import clone_images, is_current
from lab.machines.guest.units import bare_units, boot_units
from lab.machines.inventory import MACHINE_IP, Host, Inventory, load_inventory
from lab.machines.kmsg import start_log
from lab.machines.mounts import BIND, PRIVATE, RECURSIVE, SHARED, bind, detach, mount
from lab.paths import Paths, paths_from_environment

CABLE_WAIT_SECONDS = 60.0
DEVICES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "kmsg": (1, 11),
    "tty": (5, 0),
}
OPTIONAL_DEVICES = {"fuse": (10, 229), "net/tun": (10, 200)}
SCRIPTS = {"host-join": "join", "host-leave": "leave", "host-status": "status"}
BARE_SCRIPTS = {"systemctl": "systemctl"}


def main() -> None:
    """`python -m lab.machines.enter HOST`."""
    paths = paths_from_environment()
    inventory = load_inventory(paths.state)
    host = inventory.host(sys.argv[1])
    mount("", Path("/"), flags=RECURSIVE | PRIVATE)
    mount("proc", Path("/proc"), "proc")
    root = paths.run / "hosts" / host.name
    root.mkdir(parents=True, exist_ok=True)
    mount("root", root, "tmpfs", options="mode=755")
    mount_system(root)
    mount_disk(paths, host, root)
    containers = paths.disk(host.name) / "var/lib/containerd"
    if not is_current(paths.image_store, containers):
        clone_images(paths.image_store, containers)
    mount_devices(root / "dev", host.gpus)
    mount_kernel(root)
    start_log(root / "var/log/kmsg", host.gpus)
    connect(host, inventory)
    if is_v2():
        delegate(root / "sys/fs/cgroup")  # after the cable: only then is the launcher out of this group
    (root / GPU_COUNT_FILE.lstrip("/")).write_text(str(host.gpus))
    socket.sethostname(host.name)
    for unit in bare_units(host.gpus) if host.bare else boot_units():
        unit.write(root / SUPERVISOR_RUN.lstrip("/") / "units")
    change_root(root)
    environment = {"PATH": SEARCH_PATH, "PYTHONPATH": MACHINE_CODE, "HOME": "/root", "LANG": "C.UTF-8"}
    os.execve("/usr/bin/python3", ["/usr/bin/python3", "-m", "lab.supervisor", SUPERVISOR_RUN], environment)


def mount_system(root: Path) -> None:
    """The machine's programs, read-only."""
    bind(Path("/usr"), root / "usr", read_only=True)
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        source = Path("/") / name
        if source.is_symlink():
            (root / name).symlink_to(source.readlink())
        elif source.is_dir():
            bind(source, root / name, read_only=True)
    for name in ("home", "mnt", "media", "srv"):
        (root / name).mkdir()
    for name, mode in (("run", "755"), ("tmp", "1777")):
        (root / name).mkdir()
        mount(name, root / name, "tmpfs", options=f"mode={mode}")
    (root / "run/lock").mkdir()
    (root / "run/sshd").mkdir(mode=0o755)


def mount_disk(paths: Paths, host: Host, root: Path) -> None:
    """The host's own disk, the common disk, binaries, images and the host's scripts."""
    for name in ("etc", "var", "root"):
        bind(paths.disk(host.name) / name, root / name)
    bind(paths.common, root / "srv/common")
    for name in BARE_PROGRAMS if host.bare else HOST_PROGRAMS:
        folder = CNI_BIN if name.startswith("cni/") else KUBERNETES_BIN
        bind((paths.bin / name).resolve(), root / folder.lstrip("/") / Path(name).name, read_only=True)
    bind(paths.image_store, root / IMAGE_STORE.lstrip("/"), read_only=True)
    code = root / MACHINE_CODE.lstrip("/")
    source = Path(__file__).resolve().parents[1]
    for package in ("supervisor", "machines/guest"):
        shutil.copytree(source / package, code / "lab" / package, ignore=shutil.ignore_patterns("__pycache__"))
    for package in ("", "machines"):
        (code / "lab" / package / "__init__.py").touch()
    (code / "sbin").mkdir()
    for script, module in (BARE_SCRIPTS if host.bare else SCRIPTS).items():
        file = code / "sbin" / script
        file.write_text(
            f'#!/bin/sh\nPYTHONPATH={MACHINE_CODE} exec /usr/bin/python3 -m lab.machines.guest.{module} "$@"\n'
        )
        file.chmod(0o755)
    bind(code / "sbin", root / "usr/local/sbin", read_only=True)


def mount_devices(dev: Path, gpus: int) -> None:
    """A device folder of its own; GPUs are null devices."""
    dev.mkdir()
    mount("dev", dev, "tmpfs", options="mode=755")
    nodes = dict(DEVICES)
    nodes.update({k: v for k, v in OPTIONAL_DEVICES.items() if (Path("/dev") / k).exists()})
    nodes.update(dict.fromkeys(device_nodes(gpus), DEVICES["null"]))
    for name, (major, minor) in nodes.items():
        (dev / name).parent.mkdir(exist_ok=True)
        os.mknod(dev / name, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
        (dev / name).chmod(0o666)
    for name, target in (
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
        ("ptmx", "pts/ptmx"),
    ):
        (dev / name).symlink_to(target)
    for name, kind, options in (
        ("pts", "devpts", "newinstance,ptmxmode=0666,mode=0620,gid=5"),
        ("shm", "tmpfs", "mode=1777"),
        ("mqueue", "mqueue", ""),
    ):
        (dev / name).mkdir()
        mount(name, dev / name, kind, options=options)


def mount_kernel(root: Path) -> None:
    """proc with a new boot id, sys of this network, control groups whose root is this host's group."""
    for name in ("proc", "sys"):
        (root / name).mkdir()
    mount("proc", root / "proc", "proc")
    mount("sys", root / "sys", "sysfs")
    boot_id = root / SUPERVISOR_RUN.lstrip("/") / "boot_id"
    boot_id.parent.mkdir(parents=True)
    boot_id.write_text(f"{uuid.uuid4()}\n")
    boot_id.chmod(0o444)
    mount(boot_id, root / "proc/sys/kernel/random/boot_id", flags=BIND)
    groups = root / "sys/fs/cgroup"
    if is_v2():
        mount("cgroup2", groups, "cgroup2")
        for name in ("init.scope", POD_CGROUP):
            (groups / name).mkdir()
        (groups / "init.scope/cgroup.procs").write_text("0")
        return
    names = v1_hierarchies()
    mount("cgroup", groups, "tmpfs", options="mode=755")
    for name in names:
        (groups / name).mkdir()
        option = "name=systemd" if name == "systemd" else name
        mount("cgroup", groups / name, "cgroup", options=option)
        make_group(groups / name / POD_CGROUP)
    for option, target in ((o, n) for n in names if "," in n for o in n.split(",")):
        (groups / option).symlink_to(target)


def connect(host: Host, inventory: Inventory) -> None:
    """Wait for the cable, then set addresses and routes."""
    deadline = time.monotonic() + CABLE_WAIT_SECONDS
    while "eth0" not in {name for _, name in socket.if_nameindex()}:
        if time.monotonic() > deadline:
            sys.exit(f"{host.name}: no cable was plugged in within {CABLE_WAIT_SECONDS:.0f} s")
        time.sleep(0.01)
    commands = [
        "link set lo up",
        f"link set eth0 address {host.mac}",
        "link set eth0 up",
        f"addr add {host.ip}/24 dev eth0",
        f"route add default via {MACHINE_IP}",
    ]
    commands += [f"route add {h.pod_network} via {h.ip}" for h in inventory.hosts if h != host]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)
    for name in ("ip_forward", "conf/all/forwarding"):
        Path("/proc/sys/net/ipv4", name).write_text("1")
    for name in ("all", "default"):
        Path(f"/proc/sys/net/ipv4/conf/{name}/rp_filter").write_text("0")


def change_root(root: Path) -> None:
    """Make `root` the root, drop the machine's, and let mounts of pods propagate."""
    os.chdir(root)
    subprocess.run(["pivot_root", ".", "."], check=True)
    os.chroot(".")
    detach(Path())
    os.chdir("/")
    mount("", Path("/"), flags=RECURSIVE | SHARED)


main()
