"""The policy pack under the real engine: a preview that breaks a rule stops, one that keeps them passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.components import test_metal_stack, test_production_stack
from tests.components.conftest import KUBECONFIG, SECRETS, production, stack_config
from tests.components.test_policies import config_of
from tests.pulumi.engine import EngineStack
from tests.pulumi.stack import ROOT, ProjectStack

PACK = ROOT / "policies" / "pack" / "__main__.py"
PROJECT_PROGRAM = (
    f"import sys\n\nsys.path.insert(0, {str(ROOT)!r})\nimport runpy\n\nrunpy.run_path({str(ROOT / '__main__.py')!r})\n"
)
OF_ENVIRONMENTS = {"kubeconfig": KUBECONFIG, "crusoe-key": "CANARY-crusoe", **test_metal_stack.SECRETS}
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


def environment(name: str, folder: Path) -> dict[str, Any]:
    """An environment's own file, as a user would fill it in."""
    match name:
        case "production":
            return test_production_stack.filled_in()
        case "metal":
            (folder / "network.yaml").write_text(test_metal_stack.DAEMON)
            return test_metal_stack.filled_in(str(folder))
        case _:
            return config_of(name)


@pytest.mark.parametrize("name", ["production", "crusoe", "metal"])
def test_an_environments_own_file_is_previewed_before_there_is_a_cluster(tmp_path: Path, name: str) -> None:
    """With the charts' addresses, and no way to them or to a cluster; judged as production."""
    project = ProjectStack(tmp_path, PROJECT_PROGRAM)
    project.configure(environment(name, tmp_path), OF_ENVIRONMENTS)
    project.env["SPAREWHEEL_OFFLINE"] = "1"
    done = project.run("preview", "--policy-pack", str(PACK))
    assert done.code == 0, done.said
    assert "kubernetes:helm.sh/v4:Chart operator-crds" in done.said
    assert ("CrusoeNodePool h100" in done.said) == (name == "crusoe")
    assert ("command:remote:Command" in done.said) == (name == "metal")


def test_a_first_preview_of_the_whole_stack_is_judged_by_its_inputs(tmp_path: Path) -> None:
    """Before the cluster is known the provider knows no output; nothing that is declared may count as missing."""
    project = ProjectStack(tmp_path, PROJECT_PROGRAM)
    config = production(stack_config())
    project.configure(config, SECRETS)
    done = project.run("preview", "--policy-pack", str(PACK))
    assert done.code == 0, done.said
    config["pools"][0]["gpus_per_node"] = 4
    config["slurm"]["slurmctld_parameters"] = ["idle_on_node_suspend"]
    config["remediation"]["max_fenced_percent"] = 100
    project.configure(config)
    done = project.run("preview", "--policy-pack", str(PACK))
    assert done.code != 0
    assert "[mandatory]  breaker-can-open" in done.said
    assert done.said.count("[mandatory]") == 1, done.said
