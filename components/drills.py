"""Scheduled drills: a CronJob per pool that runs `sparewheel drill` and notes how it went in the pool's status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.manifest import raw, unprivileged
from components.names import DRILL, off_gpu_nodes
from components.rbac import drill_access
from components.slinky import container
from sparewheel.api.names import LABEL_POOL, NAMESPACE
from stacks.config import StackConfig
from stacks.drill import Drill

LATE_SECONDS = 3600
"""One that could not begin for so long waits for its next turn."""
MARGIN_SECONDS = 120
"""For choosing a node, beyond the time to heal it."""


def drill_job(config: StackConfig, drill: Drill, pool: str) -> dict[str, Any]:
    """Never tried again by itself: a drill that failed is a finding, not a job to be repeated."""
    command = ["python", "-m", "sparewheel.cli", "drill", f"--pool={pool}", f"--fault={drill.fault}"]
    pod = {
        "serviceAccountName": DRILL,
        "restartPolicy": "Never",
        "affinity": off_gpu_nodes(),
        "containers": [
            container(
                config.images,
                config.images.sparewheel,
                name="drill",
                command=[*command, f"--limit={drill.limit_seconds}", "--note"],
                resources={"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}},
                securityContext=unprivileged(),
            )
        ],
    }
    return {
        "schedule": drill.schedule,
        "timeZone": "Etc/UTC",
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": LATE_SECONDS,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 3,
        "jobTemplate": {
            "spec": {
                "backoffLimit": 0,
                "activeDeadlineSeconds": drill.limit_seconds + MARGIN_SECONDS,
                "template": {"metadata": {"labels": {"app.kubernetes.io/name": DRILL, LABEL_POOL: pool}}, "spec": pod},
            }
        },
    }


class Drills(pulumi.ComponentResource):
    """Only where the stack names a drill: its account may run commands in the agents' pods."""

    def __init__(
        self,
        name: str,
        config: StackConfig,
        drill: Drill,
        depends_on: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("sparewheel:remediation:Drills", name, None, opts)
        access = drill_access(pulumi.ResourceOptions(parent=self, depends_on=list(depends_on)))
        for pool in drill.pools or [pool.name for pool in config.pools]:
            k8s.batch.v1.CronJob(
                f"drill-{pool}",
                metadata={"name": f"{DRILL}-{pool}"[:52].rstrip("-"), "namespace": NAMESPACE},
                spec=raw(drill_job(config, drill, pool)),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[*access, *depends_on]),
            )
        self.register_outputs({})
