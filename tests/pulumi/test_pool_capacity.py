"""PoolCapacity under the real engine: build, resize, replace, drift, refusal, and what a forced replacement does.

The pool's machines are Nodes of a real API server (backend ``warm``); the component is the stack's own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.components.conftest import KEY
from tests.pulumi.cluster import Cluster, Operator
from tests.pulumi.stack import ALONE, ProjectStack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PROGRAM = """
import json
from pathlib import Path

import pulumi_kubernetes as k8s
from components.gpu_node_pool import Access, GpuNodePool
from stacks.platform import Images
from stacks.pools import Pool

wanted = json.loads(Path("wanted.json").read_text())
images = Images(**dict.fromkeys(
    ("slurmctld", "slurmd", "slurmdbd", "slurmrestd", "login", "base", "sparewheel"), "registry.example/image:1"))
kubeconfig = pulumi.Output.secret(Path(wanted["kubeconfig"]).read_text())
provider = k8s.Provider("cluster", kubeconfig=kubeconfig, cluster_identifier="test")
if "capacity" in wanted["pool"]:
    import components.gpu_node_pool as module

    made = module.PoolCapacity
    renamed = wanted["pool"].pop("capacity")
    module.PoolCapacity = lambda name, **arguments: made(renamed, **arguments)
component = wanted["pool"].pop("component", "pool")
GpuNodePool(
    component,
    Pool.model_validate(wanted["pool"]),
    images,
    access=Access(kubeconfig, "tested"),
    grace_seconds=30,
    opts=pulumi.ResourceOptions(
        providers=[provider], aliases=[pulumi.Alias(name="pool")] if component != "pool" else None
    ),
)
"""


class PoolStack:
    """The pool's stack with what it is asked for."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.pulumi = ProjectStack(folder, ALONE + PROGRAM)
        self.pulumi.secrets.add(json.loads(cluster.kubeconfig.read_text())["users"][0]["user"]["client-key-data"])
        self.cluster = cluster
        self.pool: dict[str, Any] = {
            "name": "gpu",
            "size": 2,
            "spares": 1,
            "backend": {"kind": "warm", "node_selector": {"fleet": "a"}},
            "deadline_seconds": 45,
            "drain_deadline_seconds": 5,
        }

    def ask(self, **changes: Any) -> None:
        self.pool |= changes
        wanted = {"kubeconfig": str(self.cluster.kubeconfig), "pool": self.pool}
        (self.pulumi.folder / "wanted.json").write_text(json.dumps(wanted))

    def capacity(self) -> dict[str, Any]:
        found = self.pulumi.resources("PoolCapacity")
        assert len(found) == 1
        return found[0]


@pytest.fixture(scope="module")
def cluster(api_server: Path) -> Iterator[Cluster]:
    cluster = Cluster(api_server)
    cluster.prepare(nodes=8)
    operator = Operator(cluster)
    operator.start()
    yield cluster
    operator.stop.set()
    operator.join()


@pytest.fixture(scope="module")
def stack(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> PoolStack:
    """A built pool; the tests below go on from one another's pool but each asks for what it needs."""
    stack = PoolStack(tmp_path_factory.mktemp("pool"), cluster)
    stack.ask()
    stack.pulumi.up()
    return stack


@pytest.fixture
def two_nodes(stack: PoolStack) -> PoolStack:
    """For tests that count: the pool as it was built, whatever a test before asked for."""
    if stack.pool["size"] != 2 or stack.pool.get("replace") or stack.cluster.count("Active") != 2:
        stack.ask(size=2, replace=[])
        stack.pulumi.up()
    return stack


def test_a_pool_is_built(two_nodes: PoolStack) -> None:
    assert two_nodes.cluster.count("Active") == 2
    assert two_nodes.cluster.count("Spare") >= 1


def test_after_a_healing_a_second_look_finds_no_change_and_no_drift(two_nodes: PoolStack) -> None:
    phases = two_nodes.cluster.phases()
    bad = next(name for name, phase in phases.items() if phase == "Active")
    spare = next(name for name, phase in phases.items() if phase == "Spare")
    two_nodes.cluster.heal(bad, spare)
    nightly = two_nodes.pulumi.pipeline("drift")
    assert (nightly.returncode, "no drift" in nightly.stdout) == (0, True), nightly.stdout + nightly.stderr


@pytest.mark.parametrize("how", ["target-replace", "taint", "rename"])
def test_a_forced_replacement_releases_nothing(two_nodes: PoolStack, how: str) -> None:
    """The engine creates the new one, then deletes the old one, on the same name."""
    before, old = two_nodes.cluster.phases(), two_nodes.capacity()
    if how == "target-replace":
        two_nodes.pulumi.up("--target-replace", old["urn"])
    elif how == "taint":
        two_nodes.pulumi.good("state", "taint", old["urn"], "--yes")
        two_nodes.pulumi.up()
    else:
        two_nodes.ask(capacity="another-name")
        two_nodes.pulumi.up()
    assert two_nodes.capacity()["id"] != old["id"]
    assert two_nodes.cluster.phases() == before


def test_a_component_that_was_renamed_keeps_what_is_live(two_nodes: PoolStack) -> None:
    before, old, live = two_nodes.cluster.phases(), two_nodes.capacity(), two_nodes.cluster.live()
    two_nodes.ask(component="renamed")
    two_nodes.pulumi.up()
    urns = [resource["urn"] for resource in two_nodes.pulumi.resources("GpuNodePool")]
    assert [urn.rpartition("::")[2] for urn in urns] == ["renamed"]
    assert two_nodes.capacity()["id"] == old["id"]
    assert two_nodes.cluster.live() == live
    assert two_nodes.cluster.phases() == before
    two_nodes.pulumi.is_quiet()


def test_what_somebody_changed_by_hand_is_drift(two_nodes: PoolStack) -> None:
    two_nodes.cluster.edit_pool({"size": 1})
    try:
        nightly = two_nodes.pulumi.pipeline("drift")
        assert nightly.returncode == 1, nightly.stdout + nightly.stderr
        assert "the cluster is other than what was last applied" in nightly.stdout
        assert "spec.size" in nightly.stdout
    finally:
        two_nodes.cluster.edit_pool({"size": 2})


def test_another_kind_of_machines_is_refused_before_anything_is_done(two_nodes: PoolStack) -> None:
    pool = dict(two_nodes.pool)
    machine = {"name": "m", "ssh": {"address": "192.0.2.1", "host_key": KEY}}
    try:
        two_nodes.ask(size=1, spares=0, replace=[], backend={"kind": "machines", "key_ref": "k", "machines": [machine]})
        done = two_nodes.pulumi.run("preview")
        assert done.code != 0
        assert "pool gpu can't change from warm to machines" in done.said
    finally:
        two_nodes.ask(**pool)


def test_no_secret_in_clear_in_the_state(two_nodes: PoolStack) -> None:
    """Also after a refresh: what the provider read then is in the state."""
    two_nodes.pulumi.good("refresh", "--yes", "--skip-preview")
    text = json.dumps(two_nodes.pulumi.state())
    key = json.loads(two_nodes.cluster.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    assert key not in text
    assert key in two_nodes.pulumi.good("stack", "export", "--show-secrets")


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


def test_resize_up_and_down(two_nodes: PoolStack) -> None:
    two_nodes.ask(size=4)
    assert "size" in two_nodes.pulumi.good("preview", "--diff")
    two_nodes.pulumi.up()
    assert two_nodes.cluster.count("Active") == 4
    two_nodes.ask(size=1)
    two_nodes.pulumi.up()
    assert two_nodes.cluster.count("Active") == 1


def test_a_host_is_replaced_on_request_and_only_once(two_nodes: PoolStack) -> None:
    bad = next(name for name, phase in two_nodes.cluster.phases().items() if phase == "Active")
    two_nodes.ask(replace=[bad])
    two_nodes.pulumi.up()
    assert two_nodes.cluster.phases()[bad] == "Quarantined"
    assert two_nodes.cluster.count("Active") == 2
    after = two_nodes.cluster.phases()
    two_nodes.pulumi.up()
    assert two_nodes.cluster.phases() == after


def test_more_than_the_machines_can_give_is_refused_in_a_sentence(two_nodes: PoolStack) -> None:
    two_nodes.ask(size=9)
    done = two_nodes.pulumi.run("up", "--yes", "--skip-preview")
    assert done.code != 0
    assert "pool gpu asks for 9 nodes" in done.said
    assert two_nodes.cluster.count("Active") >= 2


def test_destroy_gives_every_machine_back(two_nodes: PoolStack) -> None:
    two_nodes.pulumi.destroy()
    assert two_nodes.cluster.phases() == {}
