"""The nodes: a network namespace, a host name and an overlay of the images' layers each; and the daemons in them."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lab.images.catalogue import PROGRAMS, SLURM, TORCH, TORCH_COMPAT
from lab.images.smoke import config
from lab.images.store import Store

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class SmokeError(Exception):
    """A check failed; the message says what was seen."""


def sh(*argv: str) -> None:
    """Run a command of this machine; CalledProcessError when it fails."""
    subprocess.run(argv, check=True)


class Cluster:
    """Everything lies below `work`, which is a mount of its own; the namespaces of this process end with it."""

    def __init__(self, store: Store, work: Path) -> None:
        self.store = store
        self.work = work
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def root(self, node: str) -> Path:
        """A node's root file system."""
        return self.work / node / "root"

    def make_nodes(self) -> None:
        """Networks, file systems, users, keys and configuration."""
        sh("mount", "-t", "tmpfs", "tmpfs", str(self.work))
        Path("/run/netns").mkdir(exist_ok=True)
        sh("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
        sh("ip", "link", "add", "br0", "type", "bridge")
        sh("ip", "link", "set", "br0", "up")
        (self.work / "home").mkdir()
        key, jwt = secrets.token_bytes(1024), secrets.token_bytes(32)
        for number, (node, address) in enumerate(config.NODES.items()):
            self._network(node, address, number)
            self._files(node)
            self._configure(node, key, jwt)

    def _network(self, node: str, address: str, number: int) -> None:
        sh("ip", "netns", "add", node)
        sh("ip", "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", node)
        sh("ip", "link", "set", f"v{number}", "master", "br0", "up")
        sh("ip", "-n", node, "addr", "add", f"{address}/24", "dev", "eth0")
        sh("ip", "-n", node, "link", "set", "eth0", "up")
        sh("ip", "-n", node, "link", "set", "lo", "up")

    def _files(self, node: str) -> None:
        folder, root = self.work / node, self.root(node)
        for name in ("root", "upper", "work"):
            (folder / name).mkdir(parents=True)
        user_node = node in config.WORKERS or node == "login"
        layers = [SLURM, *((TORCH, TORCH_COMPAT) if user_node else ()), PROGRAMS]
        lower = ":".join(str(self.store.tree(layer)) for layer in reversed(layers))
        options = f"lowerdir={lower},upperdir={folder}/upper,workdir={folder}/work"
        sh("mount", "-t", "overlay", "overlay", "-o", options, str(root))
        sh("mount", "-t", "proc", "proc", str(root / "proc"))
        sh("mount", "-t", "tmpfs", "tmpfs", str(root / "dev"))
        for name, minor in (("null", 3), ("zero", 5), ("random", 8), ("urandom", 9)):
            os.mknod(root / "dev" / name, 0o020666, os.makedev(1, minor))
            (root / "dev" / name).chmod(0o666)
        for name in ("pts", "shm"):
            (root / "dev" / name).mkdir()
        sh("mount", "-t", "devpts", "devpts", str(root / "dev/pts"), "-o", "newinstance,ptmxmode=0666")
        (root / "dev/ptmx").symlink_to("pts/ptmx")
        sh("mount", "-t", "tmpfs", "tmpfs", str(root / "dev/shm"))
        sh("mount", "--bind", str(self.work / "home"), str(root / "home"))

    def _configure(self, node: str, key: bytes, jwt: bytes) -> None:
        etc = self.root(node) / "etc"
        hosts = "".join(f"{address} {name}\n" for name, address in config.NODES.items())
        (etc / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
        extrausers = self.root(node) / "var/lib/extrausers"
        extrausers.mkdir(exist_ok=True)
        for name, text in config.ACCOUNTS.items():
            (extrausers / name).write_text(text)
        owner = {"rest": 65534, "ctl": 401, "dbd": 401}.get(node, 0)
        files: dict[str, str | bytes] = {"slurm.key": key}
        if node == "ctl":
            files |= {
                "slurm.conf": config.SLURM_CONF,
                "cgroup.conf": config.CGROUP_CONF,
                "gres.conf": config.GRES_CONF,
                "job_submit.lua": config.SUBMIT_FILTER.read_bytes(),
                "jwt.key": jwt,
            }
        elif node == "dbd":
            files |= {"slurmdbd.conf": config.SLURMDBD_CONF, "jwt.key": jwt}
        elif node == "rest":
            files |= {"slurm.conf": config.SLURM_CONF}
        for name, content in files.items():
            path = etc / "slurm" / name
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            path.chmod(0o600)
            os.chown(path, owner, owner)
        if owner == 401:
            os.chown(self.root(node) / "var/log/slurm", 401, 401)
        if node == "login":
            (etc / "ssh/sshd_config").write_text(config.SSHD_CONFIG)
            # As kubelet makes the folder of a ConfigMap; sshd must not take offence.
            (etc / "ssh/authorized_keys.d").chmod(0o777)

    def start(self, node: str, *argv: str, uid: int = 0, env: dict[str, str] | None = None) -> None:
        """Start a daemon; its output goes to a log of the node."""
        with (self.work / f"{node}.log").open("ab") as log:
            process = subprocess.Popen(
                [*self._enter(node, uid), *argv], stdout=log, stderr=log, env={"PATH": _PATH, **(env or {})}
            )
        self.daemons[f"{node} {argv[0]}"] = process

    def run(self, node: str, script: str, uid: int = 0, seconds: float = 60.0) -> str:
        """Run a shell script in a node; its standard output. SmokeError when it fails."""
        home = f"/home/{config.USER}" if uid == config.UID else "/"
        done = subprocess.run(
            [*self._enter(node, uid), "bash", "-c", f"cd {home} && {script}"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
            env={"PATH": _PATH, "HOME": home, "LC_ALL": "C.UTF-8"},
            check=False,
        )
        if done.returncode != 0:
            raise SmokeError(f"{script}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def _enter(self, node: str, uid: int) -> Sequence[str]:
        inside = f'hostname {node}; exec chroot --userspec={uid}:{uid} --groups="" {self.root(node)} "$@"'
        return ["nsenter", f"--net=/run/netns/{node}", "unshare", "--uts", "sh", "-c", inside, "sh"]

    def until(self, what: str, seconds: float, condition: Callable[[], bool]) -> None:
        """Wait for a condition; SmokeError after `seconds`, or when a daemon has ended."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self.dead():
                raise SmokeError(f"ended by itself: {', '.join(self.dead())}")
            if time.monotonic() > deadline:
                raise SmokeError(f"not within {seconds:.0f} s: {what}")
            time.sleep(0.1)

    def dead(self) -> list[str]:
        """Daemons that have ended."""
        return [name for name, process in self.daemons.items() if process.poll() is not None]

    def logs(self, lines: int = 15) -> str:
        """The end of each log that has something in it."""
        found = [*self.work.glob("*.log"), *self.work.glob("*/root/var/log/slurm/*.log")]
        ends = ((path, path.read_text(errors="replace").splitlines()[-lines:]) for path in sorted(found))
        return "\n".join(f"== {path.relative_to(self.work)}\n" + "\n".join(text) for path, text in ends if text)

    def stop(self) -> None:
        """End the daemons; mounts go with the namespace."""
        for process in self.daemons.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 5
        for process in self.daemons.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()

    def give_user(self, name: str, text: str) -> None:
        """Put a file into the user's home directory."""
        path = self.work / "home" / config.USER / name
        path.write_text(text)
        shutil.chown(path, config.UID, config.UID)
