"""The example environment on Crusoe Cloud: it is right as it stands, and its key goes nowhere in clear."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from sparewheel.api.gpu_pool import AutoClustersMode, BadVm, CrusoeBackend, GpuPoolSpec
from stacks.config import parse
from tests.components.conftest import KUBECONFIG, ROOT, Run
from tests.support.canaries import leaks

SECRETS = {"kubeconfig": KUBECONFIG, "crusoe-key": "CANARY-crusoe", "oncall-url": "CANARY-url"}


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
    assert (spec.backend.auto_clusters, spec.backend.bad_vm) == (AutoClustersMode.DETECT_ONLY, BadVm.DELETE)
    ref = spec.backend.access.key_ref
    credentials = stack.one(":Secret", ref.name)
    assert credentials.inputs["stringData"][ref.key] == "CANARY-crusoe"
    assert "stringData" in credentials.secret_inputs


def test_the_key_is_nowhere_in_clear(run_stack: Run, example: dict[str, Any]) -> None:
    for resource in run_stack(example, SECRETS).resources:
        text = json.dumps({k: v for k, v in resource.inputs.items() if k not in resource.secret_inputs})
        assert leaks({resource.name: text}) == []
