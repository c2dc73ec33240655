"""What stands in the way is named, with the next step, before anything is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster.lifecycle import DataCentre
from lab.cluster.network import NetworkConflictError, check_conflicts
from lab.cluster.preflight import NotReadyError, check_ports, check_programs, check_rights
from lab.cluster.shell import run
from lab.machines.inventory import BRIDGE, build_inventory
from lab.paths import Paths


@pytest.fixture
def strange_network() -> Iterator[None]:
    """Another program's interface with pod addresses."""
    run(["ip", "link", "add", "stranger0", "type", "bridge"])
    run(["ip", "addr", "add", "10.78.200.1/24", "dev", "stranger0"])
    run(["ip", "link", "set", "stranger0", "up"])
    yield
    run(["ip", "link", "del", "stranger0"])


@pytest.fixture
def strange_bridge(data_centre: DataCentre) -> Iterator[None]:
    """A bridge of our name that isn't ours."""
    run(["ip", "link", "set", BRIDGE, "alias", "somebody-else"])
    yield
    run(["ip", "link", "set", BRIDGE, "alias", "sparewheel-lab"])


def test_a_port_in_use_by_another_program(data_centre: DataCentre) -> None:
    with pytest.raises(NotReadyError, match="port 2379, which etcd needs, is in use"):
        check_ports(running=[])
    with pytest.raises(NotReadyError, match="port 6443, which kube-apiserver needs, is in use"):
        check_ports(running=["etcd"])
    check_ports(running=["etcd", "kube-apiserver"])


@pytest.mark.usefixtures("strange_network")
def test_overlapping_addresses() -> None:
    with pytest.raises(NetworkConflictError, match=r"10\.78\.200\.0/24 by stranger0 overlaps 10\.78\.0\.0/16"):
        check_conflicts()


@pytest.mark.usefixtures("strange_bridge")
def test_a_bridge_of_the_same_name() -> None:
    with pytest.raises(NetworkConflictError, match=f"interface {BRIDGE} exists that this data centre did not make"):
        check_conflicts()


def test_programs_that_were_not_built(tmp_path: Path) -> None:
    with pytest.raises(NotReadyError, match=r"etcd, .*kubelet.* not found in .*; run 'make setup'"):
        check_programs(Paths(tmp_path, tmp_path, tmp_path))


def test_a_user_without_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(NotReadyError, match="needs root"):
        check_rights()


def test_an_unknown_host_and_a_size_out_of_range() -> None:
    with pytest.raises(ValueError, match="no host 'gpu-9'; hosts are sys-1, gpu-1"):
        build_inventory(1).host("gpu-9")
    with pytest.raises(ValueError, match="between 0 and 60"):
        build_inventory(61)


def test_fewer_hosts_than_there_are(data_centre: DataCentre) -> None:
    with pytest.raises(ValueError, match=r"\d GPU hosts are there and 1 asked for; run .python -m lab down. first"):
        data_centre.up(gpu_hosts=1)
