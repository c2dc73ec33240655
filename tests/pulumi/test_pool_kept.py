"""PoolCapacity under the real engine: healing, replacement, rename, drift and refusal leave the machines alone."""

from __future__ import annotations

import json

import pytest

from tests.components.conftest import KEY
from tests.pulumi.pool_stack import PoolStack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


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
