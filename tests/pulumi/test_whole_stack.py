"""The whole stack under the real engine: what the API server takes, what a second run finds, what is left behind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.components.conftest import SECRETS, stack_config
from tests.pulumi.stack import ProjectStack
from tests.support.canaries import leaks

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
    stack.secrets.add(json.loads(api_server.read_text())["users"][0]["user"]["client-key-data"])
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


READER = """
import pulumi

platform = pulumi.StackReference("organization/sparewheel/test")
pulumi.export("kubeconfig", platform.require_output("kubeconfig"))
pulumi.export("login", platform.require_output("login"))
pulumi.export("pools", platform.require_output("pools").apply(lambda pools: [pools[i] for i in range(len(pools))]))
"""


def test_another_stack_reads_the_outputs_and_the_kubeconfig_stays_secret(
    stack: ProjectStack, api_server: Path, tmp_path: Path
) -> None:
    reader = ProjectStack(tmp_path, READER, beside=stack)
    reader.secrets.add(json.loads(api_server.read_text())["users"][0]["user"]["client-key-data"])
    reader.up()
    outputs = json.loads(reader.good("stack", "output", "--json"))
    assert outputs == {"kubeconfig": "[secret]", "login": "ssh -p 30022 USER@login.example", "pools": []}
    revealed = json.loads(reader.good("stack", "output", "--json", "--show-secrets"))
    assert revealed["kubeconfig"] == api_server.read_text()
    assert reader.leaks() == []


def test_the_state_holds_no_secret_in_clear(stack: ProjectStack, api_server: Path) -> None:
    text = json.dumps(stack.state())
    shown = kubectl(api_server, "get", "secrets", "-A", "-o", "json")
    assert leaks({"state": text}) == []
    assert leaks({"Secrets": shown}) != [], "the reverse case: the cluster's Secrets do hold them"
    key = json.loads(kubectl(api_server, "-n", "slurm", "get", "secret", "slurm-auth", "-o", "json"))["data"]
    assert key["slurm.key"][:64] not in text
    assert key["jwt_hs256.key"] not in text
    assert "client-key-data" not in text


def test_no_other_object_of_the_cluster_holds_a_secret(stack: ProjectStack, api_server: Path) -> None:
    """What was rendered and applied, the records and Events with it; only Secrets may."""
    listed = kubectl(api_server, "api-resources", "--verbs=list", "-o", "name").split()
    kinds = ",".join(kind for kind in listed if kind != "secrets")
    everything = kubectl(api_server, "get", kinds, "-A", "-o", "json", "--show-managed-fields")
    assert '"RemediationPolicy"' in everything
    assert leaks({"the cluster": everything}) == []


def test_the_reverse_case_the_state_does_hold_them_encrypted(stack: ProjectStack) -> None:
    shown = stack.good("stack", "export", "--show-secrets")
    assert "CANARY-url" in shown
    assert len(stack.resources("GeneratedSecret")) == 3
