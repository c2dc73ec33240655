"""A rack of bare machines: what is on it, and that the stack for it is a right one."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.kubeadm import documents
from lab.machines.guest.units import bare_units
from lab.machines.inventory import build_inventory, build_rack, load_inventory, save_inventory, save_rack
from lab.paths import Paths
from lab.rack.config import KEY_SECRET, more_secrets, on_bare_metal
from lab.rack.rack import rack_paths
from lab.stack import fill_in
from lab.toolchain.paths import REPOSITORY
from sparewheel.api.gpu_pool import MachinesBackend
from stacks.config import StackConfig, parse
from stacks.kubeadm import KubeadmCluster
from tests.unit.test_lab_stack import USERS, public_key

RACK = build_rack(5)
KEYS = {name: public_key(number) for number, name in enumerate([*(h.name for h in RACK.hosts), "power"])}


@pytest.fixture
def config() -> dict[str, Any]:
    return yaml.safe_load((REPOSITORY / "stacks/Pulumi.lab.yaml").read_text())["config"]


def stack(config: dict[str, Any]) -> StackConfig:
    on_bare_metal(config, RACK, KEYS)
    fill_in(config, KEYS, USERS)
    return parse({key.removeprefix("sparewheel:"): value for key, value in config.items()})


def test_its_size_is_remembered_and_it_shares_no_address_with_the_data_centre(tmp_path: Path) -> None:
    assert save_rack(tmp_path, 5) == load_inventory(tmp_path) == RACK
    both = [*RACK.hosts, *build_inventory(60).hosts]
    for fact in ("name", "ip", "mac", "link", "pod_network"):
        assert len({getattr(host, fact) for host in both}) == len(both)
    assert RACK.power_port != build_inventory(1).power_port
    assert not save_inventory(tmp_path, 1).is_rack


@pytest.mark.parametrize("count", [0, 9])
def test_a_size_that_is_not_possible_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="bare hosts asked for"):
        build_rack(count)


def test_the_stack_for_it_makes_a_cluster_by_kubeadm_and_hosts_join_by_it(config: dict[str, Any]) -> None:
    found = stack(config)
    assert isinstance(found.cluster, KubeadmCluster)
    assert found.cluster.control_plane.ssh.host_key == KEYS["bare-0"]
    assert '"name": "bare-0"' in documents(found.cluster)
    backend = found.pools[0].backend
    assert isinstance(backend, MachinesBackend)
    assert [machine.name for machine in backend.machines] == ["bare-1", "bare-2", "bare-3", "bare-4"]
    assert backend.kubeadm is not None
    assert (found.pools[0].size, found.pools[0].spares) == (2, 2)
    assert ("cluster.control_plane.key_secret", KEY_SECRET) in set(found.secret_names())


def test_the_data_centres_own_stack_is_left_as_it_is(config: dict[str, Any]) -> None:
    before = copy.deepcopy(config)
    on_bare_metal(config, build_inventory(3), KEYS)
    assert config == before
    assert more_secrets(build_inventory(3), {"machines-ssh": "key"}) == {}


def test_a_bare_host_starts_with_a_kubelet_that_waits_and_nothing_that_joins() -> None:
    units = {unit.name: unit for unit in bare_units(8)}
    assert set(units) == {"sshd", "containerd", "kubelet", "gpu-device-plugin"}
    assert all(unit.autostart for unit in units.values())
    assert "gpu-device-plugin" not in {unit.name for unit in bare_units(0)}


def test_it_lies_beside_the_data_centre() -> None:
    beside = rack_paths(Paths(Path("/var/lib/x"), Path("/run/x"), Path("/cache")))
    assert (beside.state, beside.run, beside.cache) == (Path("/var/lib/x-rack"), Path("/run/x-rack"), Path("/cache"))
