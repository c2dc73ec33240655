"""The example of production: one error until it is filled in, then a stack that keeps every rule."""

from __future__ import annotations

import copy
import json
from typing import Any

import pulumi
import pytest

from policies.judge import NAMES
from policies.settings import FILE, load
from stacks.config import ConfigError, parse
from stacks.placeholders import to_fill_in
from tests.components.conftest import KEY, KUBECONFIG, MANIFESTS, Run
from tests.components.test_policies import config_of, findings, registered
from tests.support.canaries import leaks

SECRETS = {"kubeconfig": KUBECONFIG, "oncall-url": "CANARY-url"}
IMAGE = "registry.example/{}@sha256:" + "0123456789abcdef" * 4


def filled_in() -> dict[str, Any]:
    """The example with every placeholder filled in, as a user would."""
    raw = config_of("production")
    raw["images"] = {name: IMAGE.format(name) for name in raw["images"]}
    for name, disk in raw["storage"].items():
        disk["storage_class"] = f"class-of-{name}"
    raw["users"][0]["ssh_keys"] = [KEY]
    raw["login"]["service"]["source_ranges"] = ["198.51.100.0/24"]
    raw["pools"][0].update(size=8, cpus="160", memory="1800Gi")
    raw["pools"][0]["backend"]["node_selector"] = {"node.kubernetes.io/instance-type": "gpu-8x"}
    return raw


def test_one_error_names_all_that_is_left_to_fill_in(run_stack: Run) -> None:
    with pytest.raises(pulumi.RunError) as caught:
        run_stack(config_of("production"), SECRETS)
    head, *lines = str(caught.value).splitlines()
    assert head == "17 settings are still to be filled in in the stack's config:"
    assert len(lines) == 17
    for path in ("images.slurmd:", "storage.home.storage_class:", "users.0.ssh_keys.0:", "pools.0.size:"):
        assert any(line.strip().startswith(path) for line in lines), path


def test_the_last_one_is_named_alone(run_stack: Run) -> None:
    raw = filled_in()
    raw["pools"][0]["memory"] = "<memory of a worker, such as 1800Gi>"
    with pytest.raises(pulumi.RunError) as caught:
        run_stack(raw, SECRETS)
    assert str(caught.value).splitlines() == [
        "one setting is still to be filled in in the stack's config:",
        "  pools.0.memory: memory of a worker, such as 1800Gi",
    ]


def test_filled_in_it_is_right_and_asks_for_just_the_secrets_that_it_names() -> None:
    assert to_fill_in(filled_in()) == []
    assert {name for _, name in parse(filled_in()).secret_names()} == set(SECRETS)


def test_filled_in_it_previews_with_the_charts(run_stack: Run) -> None:
    stack = run_stack(filled_in(), SECRETS)
    assert [chart.name for chart in stack.of_type("helm.sh/v4:Chart")] == ["operator-crds", "operator"]
    assert stack.one(":GpuPool").inputs["spec"]["backend"]["kind"] == "warm"
    assert stack.one("PoolCapacity").protect


def test_no_secret_is_registered_in_clear(run_stack: Run) -> None:
    for resource in run_stack(filled_in(), SECRETS).resources:
        text = json.dumps({k: v for k, v in resource.inputs.items() if k not in resource.secret_inputs})
        assert leaks({f"{resource.type} {resource.name}": text}) == []


def test_filled_in_it_keeps_every_rule(run_stack: Run) -> None:
    """Charts are unpacked by the engine alone, so the operator comes from manifests here."""
    config = {**filled_in(), "operator": {"kind": "manifests", "path": str(MANIFESTS)}}
    environment = load(FILE, NAMES).of("production")
    assert findings(registered(run_stack, config, SECRETS), environment) == []


@pytest.mark.parametrize("name", ["lab", "production"])
def test_a_copied_example_says_what_to_do(name: str) -> None:
    raw = copy.deepcopy(config_of(name))
    with pytest.raises(ConfigError, match="still to be filled in") as caught:
        parse(raw)
    assert "ssh_keys.0: " in str(caught.value)
    assert ".pub file" in str(caught.value)


def test_what_only_looks_like_one_is_left_alone() -> None:
    assert to_fill_in({"a": ["<x", "x>", "a <b> c", "<>", "<a><b>", 3, None, {"b": "<what it is>"}]}) == [
        "a.7.b: what it is"
    ]
