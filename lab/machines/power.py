"""Power of a host: on boots it, off and crash end everything on it at once."""

import contextlib
import fcntl
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from lab.cluster.shell import CommandError, run, succeeds
from lab.machines.cgroups import HostGroups
from lab.machines.inventory import BRIDGE, Host
from lab.paths import Paths
from lab.supervisor.client import Supervisor
from lab.supervisor.identity import send_signal
from lab.supervisor.unit import Unit

NAMESPACES_SECONDS = 60.0
BOOT_SECONDS = 120.0
END_SECONDS = 60.0
UNSHARE = "unshare --mount --uts --ipc --net --pid --cgroup --fork --kill-child=KILL --propagation private"


class PowerError(RuntimeError):
    """A host did not come up or go down; the message says where to look."""


def unit_name(host: str) -> str:
    """Name of the unit that is the running host."""
    return f"host-{host}"


class Power:
    """Power of the hosts of one data centre. Each verb is idempotent and takes the host's lock."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.supervisor = Supervisor(paths.run)
        self.groups = HostGroups(paths.group)

    def is_on(self, host: Host) -> bool:
        """Whether the host runs."""
        status = self.supervisor.find(unit_name(host.name))
        return status is not None and status.identity is not None

    def on(self, host: Host) -> None:
        """Boot it and wait until sshd answers; nothing when it runs."""
        with self._lock(host):
            self.wanted_file(host).write_text("on")
            if not self.is_on(host):
                self._clear(host)
                self._start(host)
            self._plug_in(host)
            self._await_sshd(host)

    def off(self, host: Host) -> None:
        """End everything on it at once, as when the power is cut."""
        with self._lock(host):
            self.wanted_file(host).write_text("off")
            self.supervisor.stop(unit_name(host.name))
            self._clear(host)

    def off_without_supervisor(self, host: Host) -> None:
        """End what a host's supervisor left behind when it was itself killed; used when everything goes down."""
        with self._lock(host):
            self._clear(host)

    def reset(self, host: Host) -> None:
        """Off, then on."""
        self.off(host)
        self.on(host)

    def crash(self, host: Host) -> None:
        """Pull the plug: the host ends without any request to the switch."""
        status = self.supervisor.find(unit_name(host.name))
        if status is None or status.identity is None:
            raise PowerError(f"{host.name} is off already; 'power {host.name} on' boots it")
        self.wanted_file(host).write_text("off")
        send_signal(status.identity, signal.SIGKILL)
        deadline = time.monotonic() + END_SECONDS
        while self.groups.processes(host.name):
            if time.monotonic() > deadline:
                raise PowerError(f"{host.name} was crashed, but {self.groups.processes(host.name)} still run")
            time.sleep(0.02)

    def wanted_file(self, host: Host) -> Path:
        """Remembers `on` or `off` across a reboot of the machine."""
        return self.paths.host(host.name) / "power"

    def is_wanted(self, host: Host) -> bool:
        """Whether the host was on when the machine last ran; a new host is."""
        file = self.wanted_file(host)
        return not file.exists() or file.read_text() == "on"

    def _start(self, host: Host) -> None:
        groups = self.groups.make(host.name)
        into_groups = " && ".join(f"echo $$ > {group}/cgroup.procs" for group in groups)
        source = Path(__file__).resolve().parents[2]
        enter = f"exec {UNSHARE} {sys.executable} -m lab.machines.enter {host.name}"
        environment = {
            "PYTHONPATH": str(source),
            "PATH": f"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{os.environ.get('PATH', '')}",
            "SPAREWHEEL_LAB_STATE": str(self.paths.state),
            "SPAREWHEEL_LAB_RUN": str(self.paths.run),
            "SPAREWHEEL_CACHE": str(self.paths.cache),
        }
        unit = Unit(
            name=unit_name(host.name),
            argv=["/bin/sh", "-c", f"{into_groups} && {enter}"],
            log=str(self._console(host)),
            env=environment,
            restart="never",
            stop_signal="KILL",
        )
        status = self.supervisor.start(unit)
        if status.identity is None:
            raise PowerError(f"{host.name} did not start; see {self._console(host)}")

    def _plug_in(self, host: Host) -> None:
        """Lay the cable from the bridge into the host's network, once it has one; nothing when it lies there."""
        if succeeds(["ip", "link", "show", host.link]):
            return
        status = self.supervisor.find(unit_name(host.name))
        if status is None or status.identity is None:
            raise PowerError(f"{host.name} died while it started; see {self._console(host)}")
        process = status.identity
        own = Path("/proc/self/ns/net").readlink()
        deadline = time.monotonic() + NAMESPACES_SECONDS
        while True:
            try:
                if Path(f"/proc/{process.pid}/ns/net").readlink() != own:
                    break
            except FileNotFoundError:
                raise PowerError(f"{host.name} died while it started; see {self._console(host)}") from None
            if time.monotonic() > deadline:
                raise PowerError(f"{host.name} got no network of its own; see {self._console(host)}")
            time.sleep(0.01)
        self.groups.set_launcher_aside(process.pid)
        run(["ip", "link", "add", host.link, "type", "veth", "peer", "name", "eth0", "netns", str(process.pid)])
        run(["ip", "link", "set", host.link, "master", BRIDGE, "up"])

    def _await_sshd(self, host: Host) -> None:
        deadline = time.monotonic() + BOOT_SECONDS
        while True:
            try:
                with socket.create_connection((host.ip, 22), timeout=1) as connection:
                    if connection.recv(3) == b"SSH":
                        return
            except OSError:
                if not self.is_on(host):
                    raise PowerError(f"{host.name} died while it booted; see {self._console(host)}") from None
            if time.monotonic() > deadline:
                raise PowerError(f"sshd of {host.name} does not answer on {host.ip}:22; see {self._console(host)}")
            time.sleep(0.05)

    def _clear(self, host: Host) -> None:
        """Remove what a host that ended leaves behind: its processes, cable and control groups."""
        deadline = time.monotonic() + END_SECONDS
        while pids := self.groups.kill(host.name):
            if time.monotonic() > deadline:
                raise PowerError(f"{host.name} is off, but its processes {pids} could not be ended")
            time.sleep(0.02)
        if succeeds(["ip", "link", "show", host.link]):
            with contextlib.suppress(CommandError):
                run(["ip", "link", "del", host.link])
        self.groups.remove(host.name)

    def _console(self, host: Host) -> Path:
        self.paths.logs.mkdir(parents=True, exist_ok=True)
        return self.paths.logs / f"{unit_name(host.name)}.log"

    @contextlib.contextmanager
    def _lock(self, host: Host) -> Iterator[None]:
        folder = self.paths.run / "hosts"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{host.name}.lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
