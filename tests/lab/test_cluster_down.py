"""`down` leaves nothing behind, and `up` after it starts from nothing."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from lab.cluster.leftovers import leftovers
from lab.cluster.lifecycle import DataCentre
from lab.cluster.shell import run
from lab.machines.inventory import BRIDGE
from lab.machines.ssh import ssh
from lab.paths import Paths
from lab.supervisor.identity import Identity, identify, is_alive, send_signal
from tests.lab.conftest import Kubectl
from tests.lab.waiting import eventually


@pytest.mark.wipes_everything
@pytest.mark.timeout(240)
def test_down_leaves_nothing(lab_paths: Paths) -> None:
    centre = DataCentre(lab_paths)
    centre.up(gpu_hosts=4)
    assert ssh(lab_paths, "gpu-4", "hostname").strip() == "gpu-4"
    assert leftovers(lab_paths) != []
    assert centre.down() == []
    assert not lab_paths.state.exists()
    assert len(centre.up().gpu) == 3


@pytest.mark.wipes_everything
@pytest.mark.timeout(240)
def test_up_goes_on_after_the_machine_has_rebooted(data_centre: DataCentre, kubectl: Kubectl, namespace: str) -> None:
    """As after a reboot: no process, no bridge, and pids recorded under another boot id."""
    ssh(data_centre.paths, "gpu-1", "host-join --node-name gpu-1")
    run_state = data_centre.paths.run / "state.json"
    record = json.loads(run_state.read_text())
    killed = processes(data_centre)
    for identity in killed:
        send_signal(identity, signal.SIGKILL)
    eventually(lambda: not any(map(is_alive, killed)), 20, lambda: f"some of {killed} still run")
    run(["ip", "link", "del", BRIDGE])
    run_state.write_text(json.dumps({**record, "boot_id": "another"}))

    data_centre.up()

    assert kubectl("get", "namespace", namespace, "-o", "name").strip() == f"namespace/{namespace}"
    boot_id = ssh(data_centre.paths, "gpu-1", "cat /proc/sys/kernel/random/boot_id").strip()
    query = "jsonpath={.status.nodeInfo.bootID}"

    def seen() -> str:
        return kubectl("get", "node", "gpu-1", "-o", query)

    eventually(lambda: seen() == boot_id, 40, lambda: f"gpu-1 did not join again: its Node has boot id {seen()}")


def processes(centre: DataCentre) -> list[Identity]:
    """The supervisor, its daemons and everything on the hosts, the supervisor first so that it restarts nothing."""
    own = [status.identity for status in centre.supervisor.status()]
    pids = [pid for host in centre.hosts() for pid in centre.power.groups.processes(host.name)]
    return [identity for identity in [supervisor_of(centre), *own, *map(identify, pids)] if identity is not None]


def supervisor_of(centre: DataCentre) -> Identity | None:
    """The supervisor, by its command line."""
    wanted = f"-m\0lab.supervisor\0{centre.paths.run}\0".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (entry / "cmdline").exists() and wanted in (entry / "cmdline").read_bytes():
            return identify(int(entry.name))
    return None
