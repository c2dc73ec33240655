"""The example environment on Crusoe Cloud: it is right as it stands, and its key goes nowhere in clear."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from sparewheel.api.gpu_pool import AutoClustersMode, BadVm, CrusoeBackend, GpuPoolSpec
from stacks.config import ConfigError, parse
from stacks.crusoe import MADE_HERE
from tests.components.conftest import KUBECONFIG, NODE_POOL, ROOT, Run, crusoe_backend
from tests.support.canaries import leaks

SECRETS = {"crusoe-key": "CANARY-crusoe", "oncall-url": "CANARY-url"}


@pytest.fixture
def example() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "stacks/Pulumi.crusoe.yaml").read_text("utf-8"))["config"]
    return {key.removeprefix("sparewheel:"): value for key, value in found.items()}


def test_it_asks_for_just_the_secrets_that_it_names(example: dict[str, Any]) -> None:
    assert {name for _, name in parse(example).secret_names()} == set(SECRETS)


def test_the_pool_says_what_the_controller_needs(run_stack: Run, example: dict[str, Any]) -> None:
    stack = run_stack(example, SECRETS)
    spec = GpuPoolSpec.model_validate(stack.one(":GpuPool").inputs["spec"])
    assert isinstance(spec.backend, CrusoeBackend)
    assert (spec.backend.auto_clusters, spec.backend.bad_vm) == (AutoClustersMode.OFF, BadVm.DELETE)
    ref = spec.backend.access.key_ref
    credentials = stack.one(":Secret", ref.name)
    assert credentials.inputs["stringData"][ref.key] == "CANARY-crusoe"
    assert "stringData" in credentials.secret_inputs


def test_cluster_healer_and_node_pools_are_made(run_stack: Run, example: dict[str, Any]) -> None:
    stack = run_stack(example, SECRETS)
    assert stack.one("CrusoeCluster").inputs["settings"]["add_ons"][0] == "crusoe_csi"
    assert stack.one("CrusoeHealer").inputs["healer"] == "sparewheel"
    system, gpus = (stack.one("CrusoeNodePool", name).inputs for name in ("training-system", "h100"))
    assert (system["count"], system["nodeTaints"]) == (3, [])
    assert (gpus["count"], gpus["nodeTaints"]) == (10, [{"key": "sparewheel.dev/spare", "effect": "NoSchedule"}])
    for resource in (stack.one(":GpuPool"), stack.one("PoolCapacity")):
        assert resource.inputs["spec"]["backend"]["nodePoolId"] == NODE_POOL


def test_the_machines_go_after_the_pool_and_before_the_cluster(run_stack: Run, example: dict[str, Any]) -> None:
    stack = run_stack(example, SECRETS)
    capacity, made = stack.one("PoolCapacity"), stack.one("CrusoeNodePool", "h100")
    assert made.urn in stack.before(capacity)
    assert stack.one("CrusoeCluster").urn in stack.before(made)
    assert made.protect, "as the pool is"


def test_a_cluster_and_a_node_pool_that_are_there(run_stack: Run, example: dict[str, Any]) -> None:
    example["cluster"] = {"kind": "existing", "kubeconfig_secret": "kubeconfig"}
    del example["pools"][0]["node_pool"]
    example["pools"][0]["backend"] = crusoe_backend() | {"access": {"key_id": "id", "key_ref": "crusoe-key"}}
    stack = run_stack(example, SECRETS | {"kubeconfig": KUBECONFIG})
    assert [one.name for kind in ("CrusoeCluster", "CrusoeNodePool") for one in stack.of_type(kind)] == []
    assert stack.one(":GpuPool").inputs["spec"]["backend"]["nodePoolId"] == crusoe_backend()["node_pool_id"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"cluster": {"kind": "existing", "kubeconfig_secret": "crusoe-key"}},
            "backend.project_id: is missing",
        ),
        ({"node_pool": {"product_name": "x", "cluster_id": MADE_HERE}}, "pools.0.node_pool.cluster_id: the stack's"),
        ({"node_pool": {"product_name": "x", "settings": {"count": 3}}}, "settings.count has a setting of its own"),
        ({"backend": crusoe_backend()}, "leave one of them out"),
        ({"backend": {"kind": "warm", "node_selector": {"a": "b"}}}, "node_pool is for a backend of kind crusoe"),
        ({"node_pool": None}, "pools.0.backend.node_pool_id: is missing"),
    ],
)
def test_one_error_says_what_is_wrong(example: dict[str, Any], change: dict[str, Any], says: str) -> None:
    if "cluster" in change:
        example |= change
    else:
        example["pools"][0] |= change
    with pytest.raises(ConfigError) as caught:
        parse(example)
    assert says in str(caught.value)


def test_the_key_is_nowhere_in_clear(run_stack: Run, example: dict[str, Any]) -> None:
    for resource in run_stack(example, SECRETS).resources:
        text = json.dumps({k: v for k, v in resource.inputs.items() if k not in resource.secret_inputs})
        assert leaks({resource.name: text}) == []
