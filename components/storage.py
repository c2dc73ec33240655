"""Disks: /home for every user on every node, slurmctld's state, the accounting database."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.manifest import raw
from components.names import DATABASE_CLAIM, HOME_CLAIM, SLURM_NAMESPACE, STATE_CLAIM
from stacks.platform import Disk, HostPath
from stacks.platform import Storage as StorageConfig

# Any node: the folder is the same on every host.
EVERY_NODE = {
    "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/os", "operator": "Exists"}]}]}
}


class Storage(pulumi.ComponentResource):
    """One PersistentVolumeClaim per disk, in Slurm's namespace; the data outlives a destroy (Retain)."""

    def __init__(self, name: str, config: StorageConfig, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sparewheel:platform:Storage", name, None, opts)
        self._claim(HOME_CLAIM, config.home, "ReadWriteMany")
        self._claim(STATE_CLAIM, config.state, "ReadWriteOnce")
        if config.database is not None:
            self._claim(DATABASE_CLAIM, config.database, "ReadWriteOnce")
        self.register_outputs({})

    def _claim(self, claim: str, disk: Disk, access_mode: str) -> None:
        spec: dict[str, Any] = {
            "accessModes": [access_mode],
            "resources": {"requests": {"storage": disk.size}},
            "storageClassName": "" if isinstance(disk, HostPath) else disk.storage_class,
        }
        depends_on: list[pulumi.Resource] = []
        if isinstance(disk, HostPath):
            depends_on.append(self._volume(claim, disk, access_mode))
            spec["volumeName"] = claim
        k8s.core.v1.PersistentVolumeClaim(
            claim,
            metadata={"name": claim, "namespace": SLURM_NAMESPACE},
            spec=raw(spec),
            opts=pulumi.ResourceOptions(parent=self, depends_on=depends_on),
        )

    def _volume(self, claim: str, disk: HostPath, access_mode: str) -> k8s.core.v1.PersistentVolume:
        """A folder of the hosts; ``local`` rather than ``hostPath``, so that a daemon's fsGroup is given to it."""
        return k8s.core.v1.PersistentVolume(
            claim,
            metadata={"name": claim},
            spec=raw(
                {
                    "capacity": {"storage": disk.size},
                    "accessModes": [access_mode],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "storageClassName": "",
                    "claimRef": {"namespace": SLURM_NAMESPACE, "name": claim},
                    "local": {"path": disk.path},
                    "nodeAffinity": EVERY_NODE,
                }
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
