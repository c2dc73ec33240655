"""From bare machines to a healed platform: kubeadm's cluster, hosts that join by it, deaths while they do.

Opt-in, for its own rack and `pulumi up`: SPAREWHEEL_BARE_TESTS=1 python -m pytest tests/lab/test_bare_metal.py
The tests go on from one another. The data centre beside the rack may be up, and notices nothing.
"""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import stack
from lab.cluster.bootstrap import kubectl
from lab.demo.receiver import receiver
from lab.demo.researcher import Researcher
from lab.images.ensure import ensure_images
from lab.machines.inventory import MACHINE_IP, RACK_ONCALL_PORT, load_inventory
from lab.machines.ssh import ssh
from lab.objects import hosts
from lab.paths import Paths
from lab.rack.rack import Rack
from lab.restore import cancel_jobs, delete_records
from sparewheel.api.gpu_host import HostPhase
from sparewheel.api.names import LABEL_ROLE, ROLE_ACTIVE, TAINT_JOINING
from sparewheel.api.remediation import Trigger
from tests.lab.platform import GRACE_SECONDS, HEAL_SECONDS, Platform, ssh_works

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("SPAREWHEEL_BARE_TESTS") != "1", reason="needs SPAREWHEEL_BARE_TESTS=1"),
]
COUNT = 5
JOIN_SECONDS = 240
WATCH_SECONDS = 60


@pytest.fixture(scope="module")
def rack(lab_paths: Paths) -> Iterator[Rack]:
    """Bare machines; taken away afterwards, whatever is on them."""
    ensure_images(lab_paths)
    beside = Rack(lab_paths)
    beside.down()
    try:
        beside.up(COUNT)
        yield beside
    finally:
        beside.down()


@pytest.fixture(scope="module")
def built(rack: Rack) -> Iterator[Platform]:
    """The platform on the rack, by one `pulumi up`."""
    stack.choose(rack.paths, warm_spares=False)  # hosts join when they are needed: that is what is tried here
    stack.up(rack.paths, grace_seconds=GRACE_SECONDS)
    rack.paths.kubeconfig.touch(mode=0o600)
    rack.paths.kubeconfig.write_text(json.loads(stack.outputs(rack.paths, reveal=True))["kubeconfig"])
    with receiver(MACHINE_IP, RACK_ONCALL_PORT) as inbox:
        platform = Platform(rack.paths, Researcher(rack.paths, "alice"), inbox)
        Platform.awaiting("alice can log in", lambda: ssh_works(platform.alice), 120, lambda: "ssh refuses")
        yield platform


@pytest.fixture
def bare(built: Platform) -> Platform:
    """As the test before left its hosts, without its jobs and records."""
    cancel_jobs(built.paths)
    delete_records(built.paths)
    return built


class PowerCut(threading.Thread):
    """Cuts the power of the first of these hosts on which `kubeadm join` runs; its board is dead, it boots no more.

    None of them reaches the API server until then, so that kubeadm is in the midst of it.
    """

    def __init__(self, rack: Rack, names: list[str]) -> None:
        super().__init__(daemon=True)
        self.rack, self.names = rack, names
        self.struck = ""
        self.called_off = threading.Event()
        self._way(names, "add")

    def run(self) -> None:
        while not self.called_off.wait(0.05) and not self.struck:
            self.struck = next((name for name in self.names if joins(self.rack, name)), "")
        if self.struck:
            disk = self.rack.paths.disk(self.struck)
            disk.rename(disk.with_name("dead"))
            self.rack.power.crash(load_inventory(self.rack.paths.state).host(self.struck))
        self._way([name for name in self.names if name != self.struck], "del")

    def repair(self) -> None:
        disk = self.rack.paths.disk(self.struck)
        disk.with_name("dead").rename(disk)

    def _way(self, names: list[str], verb: str) -> None:
        server = load_inventory(self.rack.paths.state).hosts[0].ip
        for name in names:
            ssh(self.rack.paths, name, f"ip route {verb} blackhole {server}/32")


def joins(rack: Rack, name: str) -> bool:
    for pid in rack.power.groups.processes(name):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"kubeadm") and b"join" in words[1:2]:
            return True
    return False


def spares(platform: Platform) -> list[str]:
    found = {name: platform.host(name).status.phase for name in hosts(platform.paths)}
    return [name for name, phase in found.items() if phase is HostPhase.SPARE]


def test_bare_machines_become_a_platform(bare: Platform, rack: Rack) -> None:
    nodes = json.loads(kubectl(bare.paths, "get", "nodes", "-o", "json"))["items"]
    serving = {n["metadata"]["name"] for n in nodes if n["metadata"]["labels"].get(LABEL_ROLE) == ROLE_ACTIVE}
    assert len(serving) == 2
    assert len(spares(bare)) == COUNT - 3
    assert {n["spec"].get("providerID") for n in nodes if n["metadata"]["name"] in serving} == {
        f"machines://{name}" for name in serving
    }
    _, on = bare.running()
    assert set(on) == serving
    stack.preview_no_changes(rack.paths)


def test_no_token_or_key_is_left_in_clear(bare: Platform, rack: Rack) -> None:
    tokens = kubectl(
        bare.paths, "-n", "kube-system", "get", "secrets", "--field-selector=type=bootstrap.kubernetes.io/token",
        "-o", "jsonpath={range .items[*]}{.data.token-secret}{\"\\n\"}{end}",
    ).split()  # fmt: skip
    assert tokens, "each host that joined had one, which lives for some minutes more"
    secrets = [base64.b64decode(token).decode() for token in tokens]
    state = "".join(path.read_text() for path in stack.folder(rack.paths).rglob("*.json") if "backend" in path.parts)
    logs = "".join(path.read_text(errors="replace") for path in (stack.folder(rack.paths) / "log").iterdir())
    for secret in (*secrets, "client-key-data", "PRIVATE KEY"):
        assert secret not in state
        assert secret not in logs
    for host in load_inventory(rack.paths.state).hosts:
        left = ssh(rack.paths, host.name, "ls -d /run/sparewheel-join.* /etc/kubernetes/bootstrap-kubelet.conf; true")
        assert left.strip() == ""
        log = ssh(rack.paths, host.name, "cat /var/log/sparewheel-kubeadm.log 2>/dev/null; true")
        assert not [secret for secret in secrets if secret in log]


def test_a_spare_that_loses_power_while_it_joins_gives_way_to_another(bare: Platform, rack: Rack) -> None:
    job, (_, second) = bare.running(SAVE_SECONDS=2)
    cut = PowerCut(rack, spares(bare))
    cut.start()
    try:
        bare.inject(second)
        name = bare.incident(second).metadata.name
        bare.await_event(job, "first_step", 1, HEAL_SECONDS + JOIN_SECONDS)
        record = bare.healed(name)
    finally:
        cut.called_off.set()
        cut.join()
    assert cut.struck, "no spare was seen to join"
    cut.repair()
    assert record.status.replacement.spare_host not in (None, cut.struck)
    assert f"spare {cut.struck} was not let in" in bare.host(cut.struck).status.reason
    assert bare.host(second).status.phase is HostPhase.QUARANTINED
    assert bare.host(cut.struck).status.phase is not HostPhase.ACTIVE
    assert second not in bare.nodes_of(job)


def test_a_host_that_comes_back_from_the_dead_never_serves_unchecked(bare: Platform, rack: Rack) -> None:
    """It is lost, its Node removed; the one that died while joining is switched on, cleaned and takes its place."""
    job, (_, second) = bare.running(SAVE_SECONDS=2)
    (before,) = spares(bare)
    machine = load_inventory(rack.paths.state).host(second)
    rack.power.crash(machine)
    record = bare.incident(second, 120)
    assert record.spec.trigger is Trigger.NODE_LOST
    bare.await_event(job, "first_step", 1, HEAL_SECONDS + JOIN_SECONDS)
    healed = bare.healed(record.metadata.name)
    assert healed.status.replacement.spare_host == before
    assert not bare.node_exists(second)
    rack.power.on(machine)
    Platform.awaiting(
        "its kubelet registers by its old identity", lambda: bare.node_exists(second) or None, 120, lambda: "no Node"
    )
    until = time.monotonic() + WATCH_SECONDS
    while time.monotonic() < until:
        node = json.loads(kubectl(bare.paths, "get", "node", second, "-o", "json", "--ignore-not-found") or "{}")
        if node:
            taints = {taint["key"] for taint in node["spec"].get("taints", [])}
            assert TAINT_JOINING in taints or node["spec"].get("unschedulable"), taints
            assert node["metadata"]["labels"].get(LABEL_ROLE) != ROLE_ACTIVE
        assert bare.host(second).status.phase is HostPhase.QUARANTINED
        time.sleep(1)
    assert second not in bare.nodes_of(job)


def test_a_destroy_leaves_bare_machines(bare: Platform, rack: Rack) -> None:
    """The control plane's host, and each host of the pool that was in the cluster by its will."""
    phases = {name: host.status.phase for name, host in hosts(bare.paths).items()}
    stack.destroy(rack.paths)
    for name in ("bare-0", *(name for name, phase in phases.items() if phase is HostPhase.ACTIVE)):
        left = ssh(rack.paths, name, "ls /etc/kubernetes/*.conf /etc/kubernetes/manifests/*.yaml 2>/dev/null; true")
        assert left.strip() == "", name
