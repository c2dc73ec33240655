"""The whole stack under the real engine: what the API server takes, what a second run finds, what is left behind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.components.conftest import SECRETS, stack_config
from tests.pulumi.stack import ProjectStack

pytestmark = pytest.mark.slow


def config(kubeconfig: Path) -> dict[str, Any]:
    raw = stack_config()
    raw["cluster"] = {"kind": "existing", "kubeconfig_path": str(kubeconfig)}
    raw["remediation"]["keep_records"] = False
    raw["pools"] = []  # their machines have tests of their own
    return raw


@pytest.fixture(scope="module")
def stack(api_server: Path, tmp_path_factory: pytest.TempPathFactory) -> ProjectStack:
    stack = ProjectStack(tmp_path_factory.mktemp("whole"))
    stack.configure(config(api_server), {**SECRETS, "power-ssh": "CANARY-power"})
    stack.up()
    return stack


def kubectl(kubeconfig: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["kubectl", f"--kubeconfig={kubeconfig}", *arguments], capture_output=True, text=True, check=True, timeout=30
    )
    return done.stdout


@pytest.mark.timeout(180)
def test_a_second_look_finds_no_change_and_no_drift(stack: ProjectStack) -> None:
    stack.is_quiet()


def test_the_state_holds_no_secret_in_clear(stack: ProjectStack, api_server: Path) -> None:
    text = json.dumps(stack.state())
    key = json.loads(kubectl(api_server, "-n", "slurm", "get", "secret", "slurm-auth", "-o", "json"))["data"]
    assert "CANARY" not in text
    assert key["slurm.key"][:64] not in text
    assert key["jwt_hs256.key"] not in text
    assert "client-key-data" not in text


def test_the_reverse_case_the_state_does_hold_them_encrypted(stack: ProjectStack) -> None:
    shown = stack.good("stack", "export", "--show-secrets")
    assert "CANARY-url" in shown
    assert len(stack.resources("GeneratedSecret")) == 3
