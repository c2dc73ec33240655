"""Slurm's own look at a node, before and after each job: a small script reads what the node's agent has marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pulumi
import pulumi_kubernetes as k8s

from components.names import SLURM_NAMESPACE
from sparewheel.api.names import NODE_STATE_FOLDER

CHECKS: Final = "slurm-node-checks"
SCRIPT: Final = Path(__file__).parent / "files" / "node_check.sh"
FOLDER: Final = "/etc/sparewheel"
HEALTH_CHECK: Final = f"{FOLDER}/health_check.sh"
HEALTH_CHECK_SECONDS: Final = 60
PHASES: Final = ("prolog", "epilog")
"""Each is a ConfigMap of its own: the operator turns every key of a referenced ConfigMap into one script."""


def script_refs() -> dict[str, Any]:
    """Fields of the Controller that name the scripts; the daemon of each worker gets them with its configuration."""
    return {f"{phase}ScriptRefs": [{"name": f"{CHECKS}-{phase}"}] for phase in PHASES}


def health_check_lines() -> dict[str, object]:
    """HealthCheckProgram is no script that Slurm hands out: it is mounted into the worker."""
    return {
        "HealthCheckProgram": HEALTH_CHECK,
        "HealthCheckInterval": HEALTH_CHECK_SECONDS,
        "HealthCheckNodeState": "ANY",
    }


def node_state_volume() -> dict[str, Any]:
    """Where the agent marks the node's state; in memory on the host, so a boot begins without one."""
    return {"name": "node-state", "hostPath": {"path": NODE_STATE_FOLDER, "type": "DirectoryOrCreate"}}


def node_state_mount(*, writes: bool = False) -> dict[str, Any]:
    return {"name": "node-state", "mountPath": NODE_STATE_FOLDER, "readOnly": not writes}


def check_volume() -> dict[str, Any]:
    """Optional: switching the checks on or off restarts no worker."""
    return {"name": "node-checks", "configMap": {"name": CHECKS, "defaultMode": 0o555, "optional": True}}


def check_mount() -> dict[str, Any]:
    return {"name": "node-checks", "mountPath": FOLDER, "readOnly": True}


class NodeChecks(pulumi.ComponentResource):
    """The ConfigMaps: one for the workers' own folder, one each for Prolog and Epilog."""

    maps: list[pulumi.Resource]

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sparewheel:slurm:NodeChecks", name, None, opts)
        text = SCRIPT.read_text("utf-8")
        files = {CHECKS: HEALTH_CHECK.rpartition("/")[2]} | {
            f"{CHECKS}-{phase}": f"50-sparewheel-{phase}.sh" for phase in PHASES
        }
        self.maps = [
            k8s.core.v1.ConfigMap(
                config_map,
                metadata={"name": config_map, "namespace": SLURM_NAMESPACE},
                data={file: text},
                opts=pulumi.ResourceOptions(parent=self),
            )
            for config_map, file in files.items()
        ]
        self.register_outputs({})
