"""A wrong config as the person at the terminal sees it: one error, all settings named, no traceback, nothing begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.components.conftest import SECRETS, stack_config
from tests.pulumi.stack import ProjectStack


@pytest.mark.slow
def test_one_error_without_a_traceback(tmp_path: Path) -> None:
    stack = ProjectStack(tmp_path)
    raw = stack_config()
    raw["slurm"]["grace_seconds"] = 300
    raw["pools"][0]["sise"] = raw["pools"][0].pop("size")
    stack.configure(raw, SECRETS)
    done = stack.run("up", "--yes", "--skip-preview")
    assert done.code != 0
    assert "Traceback" not in done.said
    assert "slurm.grace_seconds: input should be less than or equal to 120, not 300" in done.said
    assert "pools.0.sise: there is no such setting; did you mean size?" in done.said
    assert "3 settings are wrong" in done.said
    assert "CANARY" not in done.said
    assert [r["type"] for r in stack.state()["deployment"].get("resources", [])] in ([], ["pulumi:pulumi:Stack"])


@pytest.mark.slow
def test_a_command_that_prints_no_kubeconfig(tmp_path: Path) -> None:
    """It is known only while the engine runs: nothing in the cluster is touched with it."""
    stack = ProjectStack(tmp_path)
    raw = stack_config()
    raw["cluster"]["command"] = "echo 'token: abc: x'"
    stack.configure(raw, SECRETS)
    done = stack.run("up", "--yes", "--skip-preview")
    assert done.code != 0
    assert "Traceback" not in done.said
    said = done.said.partition("Diagnostics:")[2]
    assert said.count("is no complete kubeconfig (it is no YAML: mapping values are not allowed here)") == 1
    assert "abc" not in said
    kinds = {r["type"] for r in stack.state()["deployment"].get("resources", [])}
    assert not any(kind.startswith(("kubernetes:", "pulumi:providers:kubernetes")) for kind in kinds), kinds
