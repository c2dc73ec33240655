"""host-leave: stop being a node. Stops kubelet, kube-proxy and device plugin, ends every pod, empties their folders.

Idempotent. The Node object is not touched: that is for whoever runs the cluster.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from lab.machines.guest.files import POD_CGROUP, SUPERVISOR_RUN
from lab.machines.guest.images import restore_images
from lab.machines.guest.state import JOINED, membership_lock
from lab.machines.guest.units import boot_units
from lab.supervisor.client import Supervisor

CGROUPS = Path("/sys/fs/cgroup")
POD_GROUPS = (POD_CGROUP, "k8s.io")
"""The kubelet's group, and the one where containerd puts a container whose kubelet names none (no groups per QoS)."""
END_SECONDS = 60.0


def pod_processes() -> list[int]:
    """Pids of everything in the pods' control groups."""
    found: set[int] = set()
    for top in (at / group for at in (CGROUPS / "pids", CGROUPS) for group in POD_GROUPS):
        for folder, _, _ in os.walk(top):
            try:
                found |= {int(line) for line in (Path(folder) / "cgroup.procs").read_text().split()}
            except (FileNotFoundError, OSError):
                continue
    return sorted(pid for pid in found if pid > 0)


def shims() -> list[int]:
    """Pids of containerd's shims on this host."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                argv = (entry / "cmdline").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if argv[0].endswith(b"/containerd-shim-runc-v2"):
                found.append(int(entry.name))
    return found


def end_all() -> None:
    """SIGKILL pods and shims until none is left."""
    deadline = time.monotonic() + END_SECONDS
    while pids := pod_processes() + shims():
        if time.monotonic() > deadline:
            sys.exit(f"processes {pids} of pods could not be ended within {END_SECONDS:.0f} s; power the host off")
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def unmount_below(*tops: str) -> None:
    """Unmount everything below these folders, the innermost first."""
    targets = [line.split()[1].replace("\\040", " ") for line in Path("/proc/self/mounts").read_text().splitlines()]
    for target in reversed(targets):
        if any(target.startswith(top + "/") for top in tops):
            subprocess.run(["umount", "-l", target], check=False, capture_output=True)


def empty(folder: Path) -> None:
    """Remove what is in the folder."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def leave() -> None:
    """Leave the cluster, and be as clean as after installation."""
    JOINED.unlink(missing_ok=True)
    supervisor = Supervisor(Path(SUPERVISOR_RUN))
    for name in ("kubelet", "gpu-device-plugin", "kube-proxy", "containerd"):
        supervisor.stop(name)
        if name != "containerd":
            (supervisor.units / f"{name}.json").unlink(missing_ok=True)
    end_all()
    unmount_below("/run/containerd", "/var/lib/kubelet", "/run/netns", "/var/run/netns")
    for folder in (
        "/var/lib/kubelet",
        "/var/lib/cni",
        "/var/log/pods",
        "/var/log/containers",
        "/run/containerd",
        "/run/netns",
    ):
        if Path(folder).exists():
            empty(Path(folder))
    subprocess.run(["ip", "link", "del", "cni0"], check=False, capture_output=True)
    subprocess.run(["nft", "flush", "ruleset"], check=False, capture_output=True)
    restore_images()
    supervisor.start(next(u for u in boot_units() if u.name == "containerd"))


def main() -> None:
    """No arguments."""
    argparse.ArgumentParser("host-leave", description="Stop being a node of the cluster.").parse_args()
    with membership_lock():
        leave()


if __name__ == "__main__":
    main()
