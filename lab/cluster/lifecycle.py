"""Up, down, status and reset of the whole data centre. Every step looks first and does only what is missing."""

import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lab.cluster import control_plane
from lab.cluster.alone import Alone
from lab.cluster.api import ApiError, get, is_ready
from lab.cluster.bootstrap import apply_first_objects, kubectl
from lab.cluster.leftovers import leftovers
from lab.cluster.network import ensure_bridge, remove_bridge
from lab.cluster.pki import Authority
from lab.cluster.preflight import check_all, check_rights
from lab.machines.disk import make_disk
from lab.machines.gpus import device_nodes
from lab.machines.guest.images import mark_current
from lab.machines.image_store import changed_tars, stale_tars, update_store
from lab.machines.inventory import (
    DEFAULT_GPU_HOSTS,
    MOST_GPU_HOSTS,
    Host,
    Inventory,
    build_inventory,
    load_inventory,
    save_inventory,
)
from lab.machines.kmsg import start_log
from lab.machines.own_programs import build_own_programs, outdated
from lab.machines.pause import make_pause_image
from lab.machines.power import Power
from lab.machines.ssh import make_ssh_files, ssh
from lab.paths import Paths
from lab.rack.rack import Rack
from lab.supervisor.client import Supervisor
from lab.supervisor.unit import Unit
from lab.toolchain.progress import step
from lab.waiting import wait_for

READY_SECONDS = 240.0
NODE_READY_SECONDS = 180.0
SYSTEM_LABEL = "sparewheel.dev/node-class=system"


class NotUpError(RuntimeError):
    """Something did not become ready in time; the message names it and its log."""


@dataclass(frozen=True)
class HostStatus:
    """One host as `status` shows it."""

    host: Host
    power: str
    node: str


class DataCentre:
    """The data centre of these paths."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.supervisor = Supervisor(paths.run)
        self.power = Power(paths)
        self.alone = Alone(paths)

    def up(self, gpu_hosts: int | None = None) -> Inventory:
        """Bring everything up, or go on where an earlier run stopped."""
        check_rights()
        with self.alone():
            return self._up(gpu_hosts)

    def _up(self, gpu_hosts: int | None) -> Inventory:
        running = self._running()
        if outdated(self.paths):
            with step("Building the device plugin and the pause image", 40):
                build_own_programs(self.paths, lambda _: None)
        check_all(self.paths, running)
        make_pause_image(self.paths)
        inventory = self._inventory(gpu_hosts)
        with step("Network, certificates and keys", 2):
            ensure_bridge(inventory, self.paths.state)
            authority = control_plane.make_credentials(self.paths)
            make_ssh_files(self.paths, inventory)
            self.paths.common.mkdir(parents=True, exist_ok=True)
            self.supervisor.ensure_running(self.paths.logs / "supervisor.log")
            for unit in (control_plane.etcd_unit(self.paths), control_plane.api_server_unit(self.paths)):
                self.supervisor.start(unit)
        self.import_images()
        with step("Control plane", 15):
            self._control_plane(inventory)
        with step(f"Booting {len(inventory.hosts)} hosts", 5):
            self._boot(inventory, authority)
        with step("Joining the system hosts", 15):
            self._join_system_hosts([host for host in inventory.system if self.power.is_wanted(host)])
        return inventory

    def down(self) -> list[str]:
        """End and remove everything, state too; returns what could not be removed (empty when all is gone)."""
        check_rights()
        with self.alone():
            self._down()
        return leftovers(self.paths)

    def _down(self) -> None:
        Rack(self.paths).down()
        with step("Stopping hosts and daemons", 5):
            if (self.paths.run / "state.json").exists():
                self.supervisor.ensure_running(self.paths.logs / "supervisor.log")
            self.supervisor.shutdown()
            for host in self._hosts_to_end():
                self.power.off_without_supervisor(host)
            self.power.groups.remove_all()
            remove_bridge(self.paths.state)
        with step("Removing the state", 3):
            for folder in (self.paths.state, self.paths.run):
                if folder.exists():
                    shutil.rmtree(folder)

    def _hosts_to_end(self) -> list[Host]:
        """Hosts of the inventory; every host that may be there when it is damaged."""
        try:
            return self.hosts()
        except ValueError:
            return list(build_inventory(MOST_GPU_HOSTS).hosts)

    def reset(self) -> None:
        """A clean running data centre: all hosts on and healthy, GPU hosts outside the cluster, logs new."""
        check_rights()
        with self.alone():
            self._reset()

    def _reset(self) -> None:
        for host in self.hosts():
            self.power.wanted_file(host).write_text("on")
        inventory = self._up(None)

        def renew(host: Host) -> None:
            self.power.on(host)
            ssh(self.paths, host.name, "host-leave")
            self._renew_devices(host)

        with step("GPU hosts: power, leave, devices, kernel log", 8), ThreadPoolExecutor(8) as pool:
            list(pool.map(renew, inventory.gpu))
        names = [host.name for host in inventory.gpu]
        kubectl(self.paths, "delete", "node", "--ignore-not-found", "--wait=true", *names)

    def repair(self, host: Host) -> None:
        """What a technician does: power cycle, GPUs back, a new kernel log; the host is out of the cluster then."""
        self.power.reset(host)
        ssh(self.paths, host.name, "host-leave")
        self._renew_devices(host)

    def _renew_devices(self, host: Host) -> None:
        nodes = " ".join(device_nodes(host.gpus))
        commands = f"for d in {nodes}; do [ -e /dev/$d ] || mknod -m 666 /dev/$d c 1 3; done"
        ssh(self.paths, host.name, commands)
        start_log(self.paths.disk(host.name) / "var/log/kmsg", host.gpus)

    def status(self) -> tuple[dict[str, str], list[HostStatus]]:
        """State of each daemon, and of each host."""
        inventory = load_inventory(self.paths.state)
        if not self.supervisor.is_running():
            return {"supervisor": "stopped"}, [HostStatus(h, "off", "unknown") for h in inventory.hosts]
        daemons = {s.name: s.state for s in self.supervisor.status() if not s.name.startswith("host-")}
        nodes = self._node_states()
        hosts = [
            HostStatus(h, "on" if self.power.is_on(h) else "off", nodes.get(h.name, "not joined"))
            for h in inventory.hosts
        ]
        return {"supervisor": "running", **daemons}, hosts

    def import_images(self) -> list[Path]:
        """Bring changed image tars into the shared store and into the running hosts that lack them."""
        with self.alone():
            return self._import_images()

    def _import_images(self) -> list[Path]:
        changed = changed_tars(self.paths)
        if changed:
            size = sum(tar.stat().st_size for tar in changed) / 1e6
            with step(f"Unpacking {len(changed)} image files ({size:.0f} MB)", 2 + size / 20):
                update_store(self.paths)
        running = [h for h in self.hosts() if self.supervisor.is_running() and self.power.is_on(h)]
        stale = {h: tars for h in running if (tars := stale_tars(self.paths, self._containers(h)))}
        if stale:
            size = sum(tar.stat().st_size for tars in stale.values() for tar in tars) / 1e6
            with step(f"Bringing new images to {len(stale)} running hosts", 2 + size / 40):
                for host, tars in stale.items():
                    self._renew_images(host, tars)
        return changed

    def _containers(self, host: Host) -> Path:
        return self.paths.disk(host.name) / "var/lib/containerd"

    def _renew_images(self, host: Host, tars: list[Path]) -> None:
        """A host outside the cluster takes a new clone; one with pods must import what changed."""
        if not (self.paths.disk(host.name) / "etc/kubernetes/joined.json").exists():
            ssh(self.paths, host.name, "host-leave")
            return
        for tar in tars:
            self._import_on(host, tar)
        mark_current(self.paths.image_store, self._containers(host))

    def _import_on(self, host: Host, tar: Path) -> None:
        shared = self.paths.common / f".import-{tar.name}"
        shared.unlink(missing_ok=True)
        try:
            os.link(tar, shared)
        except OSError:
            shutil.copy2(tar, shared)
        try:
            ssh(self.paths, host.name, f"ctr -n k8s.io images import /srv/common/{shared.name}", timeout_seconds=600)
        finally:
            shared.unlink()

    def _inventory(self, gpu_hosts: int | None) -> Inventory:
        if gpu_hosts is None and (self.paths.state / "inventory.json").exists():
            return load_inventory(self.paths.state)
        wanted = DEFAULT_GPU_HOSTS if gpu_hosts is None else gpu_hosts
        present = sum(host.gpus > 0 for host in self.hosts())
        if wanted < present:
            raise ValueError(f"{present} GPU hosts are there and {wanted} asked for; run 'python -m lab down' first")
        return save_inventory(self.paths.state, wanted)

    def hosts(self) -> list[Host]:
        """Hosts of the inventory; none before the first `up`."""
        if not (self.paths.state / "inventory.json").exists():
            return []
        return list(load_inventory(self.paths.state).hosts)

    def _running(self) -> list[str]:
        if not self.supervisor.is_running():
            return []
        return [s.name for s in self.supervisor.status() if s.identity is not None]

    def _control_plane(self, inventory: Inventory) -> None:
        environment = {
            "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
            "SPAREWHEEL_LAB_STATE": str(self.paths.state),
            "SPAREWHEEL_LAB_RUN": str(self.paths.run),
            "SPAREWHEEL_CACHE": str(self.paths.cache),
        }
        switch = [sys.executable, "-m", "lab.machines.power_switch"]
        self.supervisor.start(Unit("power-switch", switch, str(self.paths.logs / "power-switch.log"), env=environment))
        wait_for(
            lambda: is_ready(self.paths),
            READY_SECONDS,
            lambda: f"the API server is not ready; see {self.paths.logs}/kube-apiserver.log",
            NotUpError,
        )
        apply_first_objects(self.paths)
        for unit in (
            control_plane.controller_manager_unit(self.paths),
            control_plane.scheduler_unit(self.paths),
            control_plane.dns_unit(self.paths, inventory),
        ):
            self.supervisor.start(unit)

    def _boot(self, inventory: Inventory, authority: Authority) -> None:
        for host in inventory.hosts:
            make_disk(self.paths, host, inventory, authority)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self.power.on, [h for h in inventory.hosts if self.power.is_wanted(h)]))

    def _join_system_hosts(self, hosts: list[Host]) -> None:
        for host in hosts:
            ssh(self.paths, host.name, f"host-join --node-name {host.name} --label {SYSTEM_LABEL}", timeout_seconds=300)
        for host in hosts:
            wait_for(
                lambda name=host.name: self._node_states().get(name) == "Ready",
                NODE_READY_SECONDS,
                lambda name=host.name: (
                    f"{name} is not Ready; see its /var/log/kubelet.log (ssh -F {self.paths.ssh}/config {name})"
                ),
                NotUpError,
            )

    def _node_states(self) -> dict[str, str]:
        try:
            nodes = json.loads(get(self.paths, "/api/v1/nodes"))["items"]
        except ApiError:
            return {host.name: "unknown" for host in self.hosts()}
        states: dict[str, str] = {}
        for node in nodes:
            conditions = node.get("status", {}).get("conditions", [])
            ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
            states[node["metadata"]["name"]] = "Ready" if ready else "NotReady"
        return states
