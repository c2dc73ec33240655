"""The policy pack under the real engine: a preview that breaks a rule stops, one that keeps them passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pulumi.engine import EngineStack

PACK = Path(__file__).parents[2] / "policies" / "pack" / "__main__.py"
PROGRAM = """
import pulumi
from pulumi.dynamic import CreateResult, Resource, ResourceProvider


class Provider(ResourceProvider):
    def create(self, props):
        return CreateResult("made", props)


class PoolCapacity(Resource, module="sparewheel", name="PoolCapacity"):
    pass


protected = pulumi.ResourceOptions(protect={protect})
PoolCapacity(Provider(), "gpu", {{"password": {password}}}, protected)
pulumi.export("kubeconfig", {kubeconfig})
"""
HIDDEN = "pulumi.Output.secret('CANARY')"


def preview(stack: EngineStack, *, protect: bool, password: str, kubeconfig: str) -> tuple[int, str]:
    stack.write(PROGRAM.format(protect=protect, password=password, kubeconfig=kubeconfig))
    done = stack.run("preview", "--policy-pack", str(PACK))
    return done.code, done.said


@pytest.fixture
def stack(tmp_path: Path) -> EngineStack:
    return EngineStack(tmp_path)


def test_a_stack_that_keeps_the_rules_passes(stack: EngineStack) -> None:
    code, said = preview(stack, protect=True, password=HIDDEN, kubeconfig=HIDDEN)
    assert code == 0, said
    assert "sparewheel@v0.1.0" in said, "the pack was asked"


def test_a_stack_that_breaks_them_stops(stack: EngineStack) -> None:
    code, said = preview(stack, protect=False, password="'CANARY'", kubeconfig="'open'")
    assert code != 0
    for rule in ("no-secret-in-clear", "outputs-hide-secrets", "pools-are-protected"):
        assert f"[mandatory]  {rule}" in said, said
