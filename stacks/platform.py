"""Where the platform runs: the cluster, the Slurm operator in it, container images, disks."""

from __future__ import annotations

from itertools import permutations
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from stacks.base import AbsoluteFile, AbsoluteFolder, Area, DnsName, Image, SecretName
from stacks.charts import ChartsOperator
from stacks.crusoe import CrusoeCluster
from stacks.kubeadm import KubeadmCluster
from stacks.quantities import Bytes


class ExistingCluster(Area):
    """A cluster that is there. Its kubeconfig is a secret of the stack, or a file on this machine."""

    kind: Literal["existing"]
    kubeconfig_secret: SecretName | None = Field(default=None, description="secret of the stack with the kubeconfig")
    kubeconfig_path: AbsoluteFile | None = Field(default=None, description="file on this machine with the kubeconfig")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.kubeconfig_secret is None) == (self.kubeconfig_path is None):
            msg = "give either kubeconfig_secret or kubeconfig_path, and only one of them"
            raise ValueError(msg)
        return self


class CommandCluster(Area):
    """A cluster that a command knows, or makes: it prints a kubeconfig."""

    kind: Literal["command"]
    command: str = Field(pattern=r"\S", description="shell command that prints a kubeconfig on stdout")
    destroy_command: str | None = Field(default=None, description="shell command run last at destroy")
    rerun: str = Field(default="", description="any text; changing it runs the command again")


Cluster = Annotated[ExistingCluster | CommandCluster | KubeadmCluster | CrusoeCluster, Field(discriminator="kind")]


class ManifestsOperator(Area):
    """Slinky's operator and CRDs from a folder of YAML files."""

    kind: Literal["manifests"]
    path: str = Field(min_length=1, description="folder with YAML files, from the project's root on")


Operator = Annotated[ManifestsOperator | ChartsOperator, Field(discriminator="kind")]


class Images(Area):
    """One image per daemon; all Slurm images are of one Slurm version."""

    slurmctld: Image = Field(description="image of slurmctld")
    slurmd: Image = Field(description="image of the workers, with what users' jobs need")
    slurmdbd: Image = Field(description="image of slurmdbd")
    slurmrestd: Image = Field(description="image of slurmrestd")
    login: Image = Field(description="image of the login nodes")
    base: Image = Field(description="small image with a shell, for log and set-up containers")
    mariadb: Image = Field(default="mariadb:11", description="image of the accounting database")
    sparewheel: Image = Field(description="image with our controller and agent")
    pull_policy: Literal["IfNotPresent", "Always", "Never"] = "IfNotPresent"


class HostPath(Area):
    """A folder that every host sees under the same path: a mount of a file server, or the one disk of one machine."""

    kind: Literal["host_path"]
    path: AbsoluteFolder = Field(description="absolute path of the folder; it must be there")
    size: Bytes = "10Gi"


class StorageClass(Area):
    """Volumes made by a StorageClass of the cluster."""

    kind: Literal["storage_class"]
    storage_class: DnsName = Field(description="name of a StorageClass")
    size: Bytes = Field(description="size of the volume, such as 100Gi")


Disk = Annotated[HostPath | StorageClass, Field(discriminator="kind")]


class Storage(Area):
    """``home`` is written by many hosts at once; ``state`` holds slurmctld's state, ``database`` the accounting."""

    home: Disk = Field(description="disk of /home; with storage_class, one that many hosts can write (ReadWriteMany)")
    state: Disk = Field(description="disk of slurmctld's state")
    database: Disk | None = Field(default=None, description="disk of the accounting database, when it runs in_cluster")

    @model_validator(mode="after")
    def _folders_apart(self) -> Self:
        folders = {name: PurePosixPath(disk.path) for name, disk in self if isinstance(disk, HostPath)}
        for (one, path), (other, inside) in permutations(folders.items(), 2):
            if inside.is_relative_to(path):
                msg = f"{other} ({inside}) is in the folder of {one} ({path}); give each disk a folder of its own"
                raise ValueError(msg)
        return self
