"""PoolCapacity under the real engine: build, a killed run, resize, replacing on request, refusal, destroy.

The tests go on from one another's pool; each asks for what it needs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from tests.pulumi.pool_stack import PoolStack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def test_a_pool_is_built(two_nodes: PoolStack) -> None:
    assert two_nodes.cluster.count("Active") == 2
    assert two_nodes.cluster.count("Spare") >= 1


def test_a_killed_up_goes_on_where_it_stopped(two_nodes: PoolStack) -> None:
    """The engine loses a resource that it was creating; the claims are in the cluster, so no second host is taken."""
    two_nodes.ask(size=3)
    process = subprocess.Popen(
        ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive"],
        cwd=two_nodes.pulumi.folder,
        env=two_nodes.pulumi.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while two_nodes.cluster.pool()["spec"]["size"] != 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    two_nodes.pulumi.good("cancel", "--yes")
    two_nodes.pulumi.up()
    assert two_nodes.cluster.count("Active") == 3


def test_resize_up_and_down(pool: PoolStack) -> None:
    pool.ask(size=4)
    assert "size" in pool.pulumi.good("preview", "--diff")
    pool.pulumi.up()
    assert pool.cluster.count("Active") == 4
    pool.ask(size=2)
    pool.pulumi.up()
    assert pool.cluster.count("Active") == 2


def test_a_host_is_replaced_on_request_and_only_once(two_nodes: PoolStack) -> None:
    bad = next(name for name, phase in two_nodes.cluster.phases().items() if phase == "Active")
    two_nodes.ask(replace=[bad])
    two_nodes.pulumi.up()
    assert two_nodes.cluster.phases()[bad] == "Quarantined"
    assert two_nodes.cluster.count("Active") == 2
    after = two_nodes.cluster.phases()
    two_nodes.pulumi.up()
    assert two_nodes.cluster.phases() == after


def test_more_than_the_machines_can_give_is_refused_in_a_sentence(pool: PoolStack) -> None:
    pool.ask(size=9)
    done = pool.pulumi.run("up", "--yes", "--skip-preview")
    assert done.code != 0
    assert "error: pool gpu asks for 9 nodes" in done.said
    assert "Traceback" not in done.said
    assert pool.cluster.count("Active") >= 2


def test_destroy_gives_every_machine_back(pool: PoolStack) -> None:
    pool.pulumi.destroy()
    assert pool.cluster.phases() == {}
