"""A rack's life: machines put up on the data centre's network, in no cluster, and taken away without a trace."""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.cluster.network import ensure_bridge, remove_bridge
from lab.cluster.preflight import check_programs, check_rights
from lab.cluster.shell import run, succeeds
from lab.machines.disk import make_disk
from lab.machines.image_store import update_store
from lab.machines.inventory import BRIDGE, Host, Inventory, build_rack, load_inventory, save_rack
from lab.machines.own_programs import build_own_programs
from lab.machines.pause import make_pause_image
from lab.machines.power import Power
from lab.machines.ssh import make_ssh_files, ssh
from lab.paths import Paths
from lab.rack.images import make_images
from lab.supervisor.client import Supervisor
from lab.supervisor.unit import Unit
from lab.toolchain import setup
from lab.toolchain.progress import step

OWN_BRIDGE = "own-bridge"
IMPORT_SECONDS = 300.0


def rack_paths(paths: Paths) -> Paths:
    """The rack's own state and runtime folders beside the data centre's; the cache is shared."""
    return Paths(
        state=paths.state.with_name(f"{paths.state.name}-rack"),
        run=paths.run.with_name(f"{paths.run.name}-rack"),
        cache=paths.cache,
    )


class Rack:
    """The rack beside the data centre of these paths."""

    def __init__(self, beside: Paths) -> None:
        self.paths = rack_paths(beside)
        self.supervisor = Supervisor(self.paths.run)
        self.power = Power(self.paths)

    def is_there(self) -> bool:
        return self.paths.state.exists() or self.paths.run.exists()

    def up(self, count: int) -> Inventory:
        """Boot the machines; those that are there are kept, in whatever cluster they are."""
        check_rights()
        setup.ensure("rack")
        build_own_programs(self.paths, lambda _: None)
        check_programs(self.paths)
        make_pause_image(self.paths)
        update_store(self.paths)
        inventory = save_rack(self.paths.state, count)
        with step(f"A rack of {count} bare machines", 15):
            self._network(inventory)
            make_ssh_files(self.paths, inventory)
            self.paths.common.mkdir(parents=True, exist_ok=True)
            self.supervisor.ensure_running(self.paths.logs / "supervisor.log")
            self._power_switch()
            for host in inventory.hosts:
                make_disk(self.paths, host, inventory, None)
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(self.power.on, inventory.hosts))
        self._bring_images(inventory)
        return inventory

    def down(self) -> None:
        """Every process, cable and file of it; the data centre beside it notices nothing."""
        if not self.is_there():
            return
        check_rights()
        with step("The rack is taken away", 5):
            if (self.paths.run / "state.json").exists():
                self.supervisor.ensure_running(self.paths.logs / "supervisor.log")
            self.supervisor.shutdown()
            for host in self._hosts():
                self.power.off_without_supervisor(host)
                if succeeds(["ip", "link", "show", BRIDGE]):
                    succeeds(["ip", "route", "del", host.pod_network])
            self.power.groups.remove_all()
            if (self.paths.state / OWN_BRIDGE).exists():
                remove_bridge(self.paths.state)
            for folder in (self.paths.state, self.paths.run):
                shutil.rmtree(folder, ignore_errors=True)

    def _hosts(self) -> list[Host]:
        try:
            return list(load_inventory(self.paths.state).hosts)
        except (FileNotFoundError, ValueError):
            return list(build_rack(1).hosts)

    def _network(self, inventory: Inventory) -> None:
        """The data centre's bridge where that is up, else one of the rack's own."""
        if not succeeds(["ip", "link", "show", BRIDGE]):
            (self.paths.state / OWN_BRIDGE).touch()
        if (self.paths.state / OWN_BRIDGE).exists():
            ensure_bridge(inventory, self.paths.state)
            return
        for host in inventory.hosts:
            run(["ip", "route", "replace", host.pod_network, "via", host.ip, "dev", BRIDGE, "onlink"])

    def _power_switch(self) -> None:
        environment = {
            "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
            "SPAREWHEEL_LAB_STATE": str(self.paths.state),
            "SPAREWHEEL_LAB_RUN": str(self.paths.run),
            "SPAREWHEEL_CACHE": str(self.paths.cache),
        }
        log = str(self.paths.logs / "power-switch.log")
        switch = [sys.executable, "-m", "lab.machines.power_switch"]
        self.supervisor.start(Unit("power-switch", switch, log, environment))

    def _bring_images(self, inventory: Inventory) -> None:
        """Where kubeadm would pull them from a registry."""
        tars = make_images(self.paths)
        names = " ".join(f"/srv/common/{tar.name}" for tar in tars)
        with step("Images of a control plane to the rack", 20):
            for tar in tars:
                shared = self.paths.common / tar.name
                shared.unlink(missing_ok=True)
                try:
                    os.link(tar, shared)
                except OSError:
                    shutil.copy2(tar, shared)
            for host in inventory.hosts:
                wanted = names if not host.gpus else "/srv/common/kube-proxy.tar"
                command = f"for tar in {wanted}; do ctr -n k8s.io images import $tar >/dev/null; done"
                ssh(self.paths, host.name, command, timeout_seconds=IMPORT_SECONDS)
            for tar in tars:
                (self.paths.common / tar.name).unlink()
