"""Nodes for a training job, without Slurm: network namespaces with names of their own, PyTorch from the built image.

What Slurm would do (environment of a task, SIGTERM to all, SIGKILL after the grace) is done by the test.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.images.catalogue import SLURM, TORCH, TORCH_COMPAT
from lab.images.store import Store
from lab.paths import paths_from_environment

TRAINING = Path(__file__).resolve().parents[2] / "training"
INSIDE = "/mnt"
"""Where the test's folder is in the root: the template, and the storage that the nodes share."""

ENTER = """
set -e
hostname "$NODE_NAME"
mount --make-rprivate /
mkdir -p "$OWN/upper" "$OWN/work" "$OWN/root"
mount -t overlay overlay -o "lowerdir=$LAYERS,upperdir=$OWN/upper,workdir=$OWN/work" "$OWN/root"
for part in proc dev; do mount --rbind "/$part" "$OWN/root/$part"; done
mount --bind "$SHARED" "$OWN/root/mnt"
cp "$SHARED/hosts" "$OWN/root/etc/hosts"
exec chroot "$OWN/root" /bin/sh -c 'cd /mnt/training && exec "$@"' sh "$@"
"""


def torch_layers() -> Sequence[Path] | None:
    """What the workers' image is made of, uppermost first; None where it isn't built."""
    store = Store.of(paths_from_environment())
    layers = (TORCH_COMPAT, TORCH, SLURM)
    return [store.tree(layer) for layer in layers] if all(store.diff_id(layer) for layer in layers) else None


def until(condition: Callable[[], object], seconds: float, seen: Callable[[], str]) -> None:
    """Wait for `condition`; AssertionError with what was `seen` after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s:\n{seen()}"
        time.sleep(0.05)


@dataclass
class Node:
    """One node: a network namespace with an address. `start` is what srun does there."""

    name: str
    address: str
    namespace: str
    layers: Sequence[Path]
    shared: Path
    own: Path
    process: subprocess.Popen[str] | None = field(default=None)

    def start(
        self, job: int, attempt: int, names: Sequence[str], arguments: Sequence[str], ranks: int, launch: Sequence[str]
    ) -> None:
        """Start the launcher of one attempt here; `names` are the attempt's nodes, the first of them hosts."""
        environ = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": f"{INSIDE}/home",
            "NODE_NAME": self.name,
            "LAYERS": ":".join(map(str, self.layers)),
            "OWN": str(self.own),
            "SHARED": str(self.shared),
            "SLURM_JOB_ID": str(job),
            "SLURM_RESTART_COUNT": str(attempt),
            "SLURM_STEP_NODELIST": ",".join(names),
            "SLURM_NODEID": str(names.index(self.name)),
            "OMP_NUM_THREADS": "1",
        }
        command = ["python3", "launch.py", "--nproc-per-node", str(ranks), *launch, "train.py", *arguments]
        with self.log(job, attempt).open("w") as log:
            self.process = subprocess.Popen(
                [
                    "nsenter",
                    f"--net=/run/netns/{self.namespace}",
                    "unshare",
                    "--mount",
                    "--uts",
                    "sh",
                    "-c",
                    ENTER,
                    "sh",
                    *command,
                ],
                env=environ,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def log(self, job: int, attempt: int) -> Path:
        """What its processes printed."""
        return self.shared / f"log-{job}-{attempt}-{self.name}"

    @property
    def launcher(self) -> subprocess.Popen[str]:
        assert self.process is not None
        return self.process

    def ranks(self) -> list[int]:
        """The processes that train, in the order they were started."""
        return sorted(pid for pid in self.processes() if b"train.py" in _argument(pid, 2))

    def processes(self) -> list[int]:
        """The launcher and all that descends from it."""
        found = [self.launcher.pid]
        for pid in found:
            with contextlib.suppress(OSError):
                found += [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return found

    def terminate(self, everything: bool = True) -> None:
        """SIGTERM as Slurm sends it: to every process of the step, or (with cgroups) to the one that it started."""
        for pid in self.processes() if everything else [self.launcher.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def unplug(self) -> None:
        """Its network is gone: nothing comes, and no connection is closed."""
        subprocess.run(["ip", "-n", self.namespace, "link", "set", "eth0", "down"], check=True)

    def kill(self) -> None:
        """The node is gone, or the grace is over."""
        if self.process is None:
            return
        for pid in [*reversed(self.processes()), *_session(self.process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def _argument(pid: int, index: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[index]
    except (OSError, IndexError):
        return b""


def _session(leader: int) -> list[int]:
    """Processes of a session, orphans included."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[3]) == leader:
                    found.append(int(entry.name))
    return found


@contextlib.contextmanager
def nodes(layers: Sequence[Path], folder: Path, count: int) -> Iterator[list[Node]]:
    """`count` nodes on one bridge in a namespace of its own; nothing of it is left afterwards.

    `folder`/shared is what they share.
    """
    shared = folder / "shared"
    shutil.copytree(TRAINING, shared / "training", ignore=shutil.ignore_patterns("__pycache__"))
    (shared / "home").mkdir()
    tag = f"swt{os.getpid()}"
    made = [
        Node(f"node-{n}", f"10.79.0.{n + 1}", f"{tag}n{n}", layers, shared, folder / f"node-{n}") for n in range(count)
    ]
    lines = ["127.0.0.1 localhost", *(f"{node.address} {node.name}" for node in made)]
    (shared / "hosts").write_text("\n".join(lines) + "\n")

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    try:
        ip("netns", "add", tag)
        ip("-n", tag, "link", "add", "name", "br0", "type", "bridge")
        ip("-n", tag, "link", "set", "br0", "up")
        for number, node in enumerate(made):
            ip("netns", "add", node.namespace)
            ip(
                "-n",
                tag,
                "link",
                "add",
                "name",
                f"p{number}",
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                node.namespace,
            )
            ip("-n", tag, "link", "set", f"p{number}", "master", "br0", "up")
            ip("-n", node.namespace, "link", "set", "lo", "up")
            ip("-n", node.namespace, "address", "add", f"{node.address}/24", "dev", "eth0")
            ip("-n", node.namespace, "link", "set", "eth0", "up")
        yield made
    finally:
        for node in made:
            node.kill()
        for name in (tag, *(node.namespace for node in made)):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
