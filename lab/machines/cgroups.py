"""A control group per host, on cgroup v1 (every hierarchy) and v2, so that a host sees a root of its own."""

import contextlib
import errno
import os
import signal
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
WEIGHT = {"cpu.shares": 8192, "cpu.weight": 800}
"""The processors' share of all hosts together (v1, v2), eight times a login session's: they stand for machines of
their own, and a compiler that runs beside them must not make their clocks and leases slip."""


def is_v2() -> bool:
    """Whether the machine has the unified hierarchy alone."""
    return (ROOT / "cgroup.controllers").exists()


def v1_hierarchies() -> list[str]:
    """Mounted v1 hierarchies by folder name, `unified` left out."""
    if is_v2():
        return []
    return sorted(
        p.name
        for p in ROOT.iterdir()
        if p.is_dir() and not p.is_symlink() and (p / "cgroup.procs").exists() and p.name != "unified"
    )


def hierarchy_roots() -> list[Path]:
    """Where groups are made: one folder per hierarchy."""
    if is_v2():
        return [ROOT]
    roots = [ROOT / name for name in v1_hierarchies()]
    if (ROOT / "unified" / "cgroup.procs").exists():
        roots.append(ROOT / "unified")
    return roots


def make_group(folder: Path) -> None:
    """One group; on v1 a new cpuset takes no process until it has its parent's processors and memory."""
    folder.mkdir(exist_ok=True)
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = folder / name
        if not is_v2() and file.exists() and not file.read_text().strip():
            file.write_text((folder.parent / name).read_text())


def delegate(folder: Path) -> None:
    """Pass every controller on to the groups below (v2)."""
    controllers = (folder / "cgroup.controllers").read_text().split()
    (folder / "cgroup.subtree_control").write_text(" ".join(f"+{c}" for c in controllers))


class HostGroups:
    """The hosts' groups of one data centre, below a group of its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def make(self, host: str) -> list[Path]:
        """The host's group in every hierarchy, ready to take processes."""
        groups: list[Path] = []
        for root in hierarchy_roots():
            top = root / self.name
            for folder in (top, top / host):
                make_group(folder)
            for name, share in WEIGHT.items():
                if (top / name).exists():
                    (top / name).write_text(str(share))
            if is_v2():
                delegate(root)
                delegate(top)
            groups.append(top / host)
        return groups

    def set_launcher_aside(self, pid: int) -> None:
        """On v2 a group with processes of its own passes no controllers on: move the launcher out of it."""
        if is_v2():
            aside = ROOT / self.name / "launchers"
            aside.mkdir(exist_ok=True)
            (aside / "cgroup.procs").write_text(str(pid))

    def remove(self, host: str) -> None:
        """Remove the emptied groups of a host without power."""
        for root in hierarchy_roots():
            _remove_tree(root / self.name / host)

    def remove_all(self) -> None:
        """Remove the group above the hosts."""
        for root in hierarchy_roots():
            _remove_tree(root / self.name)

    def processes(self, host: str) -> list[int]:
        """Pids (of the machine) of everything that runs on the host, pods included."""
        root = ROOT if is_v2() else ROOT / "pids"
        pids: list[int] = []
        for folder, _, _ in os.walk(root / self.name / host):
            with contextlib.suppress(OSError):
                pids += [int(line) for line in (Path(folder) / "cgroup.procs").read_text().split()]
        return sorted(pids)

    def kill(self, host: str) -> list[int]:
        """SIGKILL what runs on the host, each by a descriptor taken while it was seen there; returns those pids."""
        pids = self.processes(host)
        descriptors: dict[int, int] = {}
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                descriptors[pid] = os.pidfd_open(pid)
        still = set(self.processes(host))
        for pid, descriptor in descriptors.items():
            if pid in still:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            os.close(descriptor)
        return pids


def _remove_tree(top: Path) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        try:
            Path(folder).rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EBUSY):
                raise
