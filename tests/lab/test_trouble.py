"""A GPU dies and something else goes wrong with it: the job goes on, nothing is done twice, nothing is left. Opt-in.

SPAREWHEEL_TROUBLE_TESTS=1 python -m pytest tests/lab/test_trouble.py
"""

from __future__ import annotations

import os

import pytest

from lab.cluster.bootstrap import kubectl
from lab.cluster.lifecycle import DataCentre
from lab.machines.inventory import load_inventory
from sparewheel.api.names import CONTROLLER_LEASE, NAMESPACE
from sparewheel.api.remediation import NodeStage
from tests.lab.platform import Platform
from tests.lab.trouble import (
    gone_on,
    kill_daemons,
    kill_processes,
    lasts,
    lease_taken,
    paused,
    store_full,
    unplugged,
    written_down,
)

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.environ.get("SPAREWHEEL_TROUBLE_TESTS") != "1", reason="needs SPAREWHEEL_TROUBLE_TESTS=1"),
]
CONTROLLER = b"sparewheel.remediation.controller"


def struck(platform: Platform, save_seconds: int = 2) -> tuple[int, str, str]:
    """A job on two nodes, one of which has just lost a GPU: job, node, incident."""
    job, (_, node) = platform.running(SAVE_SECONDS=save_seconds)
    platform.inject(node)
    return job, node, platform.incident(node).metadata.name


def begun(platform: Platform, name: str, stage: NodeStage) -> None:
    platform.await_record(name, f"{stage} begins", lambda r: any(s.name is stage for s in r.status.stages))


def test_both_controllers_are_killed_at_once(platform: Platform) -> None:
    job, node, name = struck(platform)
    assert kill_processes(platform, "sys-1", CONTROLLER) == 2
    gone_on(platform, job, node, name)


def test_the_record_is_deleted(platform: Platform) -> None:
    job, node, name = struck(platform, save_seconds=15)
    begun(platform, name, NodeStage.DRAINED)
    kubectl(platform.paths, "-n", NAMESPACE, "delete", "remediations.sparewheel.dev", name, "--wait=false")
    again = platform.incident(node).metadata.name
    gone_on(platform, job, node, again)


def test_the_lease_is_taken_by_somebody_else(platform: Platform) -> None:
    job, node, name = struck(platform)
    lease_taken(platform, 30)
    gone_on(platform, job, node, name)


def test_the_lease_is_deleted(platform: Platform) -> None:
    job, node, name = struck(platform)
    kubectl(platform.paths, "-n", NAMESPACE, "delete", "lease", CONTROLLER_LEASE)
    gone_on(platform, job, node, name)


def test_the_struck_node_is_cut_off_from_the_network(platform: Platform) -> None:
    job, node, name = struck(platform)
    with unplugged(platform, node):
        gone_on(platform, job, node, name)


def test_slurmctld_is_killed(platform: Platform) -> None:
    job, (_, node) = platform.running(SAVE_SECONDS=2)
    written_down(platform, job)
    platform.inject(node)
    assert kill_processes(platform, "sys-1", b"slurmctld ")
    gone_on(platform, job, node, platform.incident(node).metadata.name)


def test_the_store_takes_no_writes_for_a_minute(platform: Platform) -> None:
    job, node, name = struck(platform)
    with store_full(platform):
        lasts(60)
    gone_on(platform, job, node, name)


def test_the_api_server_stands_still(platform: Platform) -> None:
    job, node, name = struck(platform)
    with paused(platform, "kube-apiserver"):
        lasts(20)
    gone_on(platform, job, node, name)


def test_the_struck_host_loses_power_while_it_is_drained(platform: Platform) -> None:
    job, node, name = struck(platform)
    begun(platform, name, NodeStage.DRAINED)
    DataCentre(platform.paths).power.crash(load_inventory(platform.paths.state).host(node))
    gone_on(platform, job, node, name)


def test_the_api_server_and_etcd_are_killed(platform: Platform) -> None:
    job, node, name = struck(platform)
    kill_daemons(platform, "etcd", "kube-apiserver")
    gone_on(platform, job, node, name)


def test_slurmrestd_is_killed(platform: Platform) -> None:
    job, (_, node) = platform.running(SAVE_SECONDS=2)
    platform.inject(node)
    assert kill_processes(platform, "sys-1", b"slurmrestd ")
    gone_on(platform, job, node, platform.incident(node).metadata.name)


def test_the_struck_hosts_object_is_deleted(platform: Platform) -> None:
    job, node, name = struck(platform, save_seconds=15)
    begun(platform, name, NodeStage.REPLACED)
    kubectl(platform.paths, "-n", NAMESPACE, "delete", "gpuhosts.sparewheel.dev", node)
    gone_on(platform, job, node, name)
