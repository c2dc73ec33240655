"""Where ``sparewheel plan`` asks: a controller's pod that runs, with the settings that it runs with."""

from __future__ import annotations

from typing import Any

import pytest

from sparewheel.api.names import CONTROLLER_APP_NAME, LABEL_APP_NAME, NAMESPACE
from sparewheel.cli.commands.plan import controller
from sparewheel.cli.common import CommandError
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import POD

COMMAND = ["python", "-m", "sparewheel.remediation.controller", "--health-port=8080", "--slurm-user=root"]


def put(kube: MemoryKube, name: str, phase: str, **metadata: Any) -> None:
    labels = {LABEL_APP_NAME: CONTROLLER_APP_NAME}
    body = {
        "metadata": {"name": name, "labels": labels, **metadata},
        "spec": {"containers": [{"name": "controller", "command": COMMAND}]},
        "status": {"phase": phase},
    }
    kube.put(POD, body, NAMESPACE)


async def test_a_running_pod_and_its_arguments_without_the_port_that_is_taken() -> None:
    kube = MemoryKube()
    put(kube, "a", "Pending")
    put(kube, "b", "Running", deletionTimestamp="2026-01-01T00:00:00Z")
    put(kube, "c", "Running")
    assert await controller(kube) == ("c", ["--slurm-user=root"])


async def test_without_one_nothing_would_be_done() -> None:
    kube = MemoryKube()
    put(kube, "a", "Failed")
    with pytest.raises(CommandError, match="no controller runs, so nothing would be done"):
        await controller(kube)
