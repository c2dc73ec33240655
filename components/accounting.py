"""Accounting: slurmdbd, and MariaDB unless you have one. Database first, slurmctld last, or that never starts."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components import settings
from components.generated_secret import GeneratedSecret
from components.manifest import raw
from components.names import (
    AUTH_SECRET,
    DATABASE,
    DATABASE_CLAIM,
    DATABASE_SECRET,
    JWT_KEY,
    SLURM,
    SLURM_KEY,
    SLURM_NAMESPACE,
    off_gpu_nodes,
)
from components.slinky import container, ready_service, slinky
from stacks.platform import Images
from stacks.slurm import Database, ExternalDatabase

IN_CLUSTER = ExternalDatabase(kind="external", host=DATABASE, password_secret="unused")  # noqa: S106 - a name
"""The same settings for a database of ours."""
DATABASE_SETTINGS = (
    "--innodb-buffer-pool-size=256M",
    "--innodb-lock-wait-timeout=900",
    "--innodb-snapshot-isolation=OFF",
)
"""What slurmdbd asks for. With snapshot isolation, MariaDB's newer default, it ends itself on a write conflict."""


class Accounting(pulumi.ComponentResource):
    """Ready when slurmdbd answers."""

    def __init__(
        self, name: str, database: Database, images: Images, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("sparewheel:slurm:Accounting", name, None, opts)
        external = isinstance(database, ExternalDatabase)
        server = database if external else IN_CLUSTER
        password = (
            settings.secret(server.password_secret)
            if external
            else GeneratedSecret("database-password", 24, pulumi.ResourceOptions(parent=self)).base64
        )
        secret = self._secret(server, password)
        before: list[pulumi.Resource] = [secret]
        if not external:
            before.append(self._mariadb(images, secret))
        accounting = slinky(
            "Accounting",
            SLURM,
            {
                "slurmKeyRef": {"name": AUTH_SECRET, "key": SLURM_KEY},
                "jwtKeyRef": {"name": AUTH_SECRET, "key": JWT_KEY},
                "slurmdbd": container(images, images.slurmdbd),
                "storageConfig": {
                    "host": server.host,
                    "port": server.port,
                    "database": server.name,
                    "username": server.username,
                    "passwordKeyRef": {"name": DATABASE_SECRET, "key": "password"},
                },
                "template": {"spec": {"affinity": off_gpu_nodes()}},
            },
            self,
            before,
        )
        ready_service("slurmdbd", SLURM, 6819, self, [accounting])
        self.register_outputs({})

    def _secret(self, server: ExternalDatabase, password: pulumi.Input[str]) -> k8s.core.v1.Secret:
        # The base64 alphabet holds no quote, so a generated password can stand in SQL as it is. The user is set at
        # every start: a disk kept from an earlier stack has an older password.
        text = pulumi.Output.concat(
            f"CREATE DATABASE IF NOT EXISTS {server.name};\n",
            f"CREATE USER IF NOT EXISTS '{server.username}'@'%';\n",
            f"ALTER USER '{server.username}'@'%' IDENTIFIED BY '",
            password,
            f"';\nGRANT ALL ON {server.name}.* TO '{server.username}'@'%';\n",
        )
        return k8s.core.v1.Secret(
            DATABASE_SECRET,
            metadata={"name": DATABASE_SECRET, "namespace": SLURM_NAMESPACE},
            string_data={"password": password, "init.sql": text},
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _mariadb(self, images: Images, secret: k8s.core.v1.Secret) -> k8s.apps.v1.StatefulSet:
        labels = {"app.kubernetes.io/name": DATABASE}
        service = k8s.core.v1.Service(
            DATABASE,
            metadata={"name": DATABASE, "namespace": SLURM_NAMESPACE, "annotations": {"pulumi.com/skipAwait": "true"}},
            spec=raw({"clusterIP": "None", "selector": labels, "ports": [{"name": "mysql", "port": 3306}]}),
            opts=pulumi.ResourceOptions(parent=self),
        )
        pod: dict[str, Any] = {
            "affinity": off_gpu_nodes(),
            "securityContext": {"runAsUser": 999, "runAsGroup": 999, "fsGroup": 999},
            "containers": [
                container(
                    images,
                    images.mariadb,
                    name=DATABASE,
                    args=["--init-file=/etc/mysql/sparewheel/init.sql", *DATABASE_SETTINGS],
                    env=[{"name": "MARIADB_RANDOM_ROOT_PASSWORD", "value": "yes"}],
                    ports=[{"name": "mysql", "containerPort": 3306}],
                    readinessProbe={"tcpSocket": {"port": 3306}, "periodSeconds": 2},
                    volumeMounts=[
                        {"name": "data", "mountPath": "/var/lib/mysql"},
                        {"name": "init", "mountPath": "/etc/mysql/sparewheel", "readOnly": True},
                    ],
                )
            ],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": DATABASE_CLAIM}},
                {"name": "init", "secret": {"secretName": DATABASE_SECRET}},
            ],
        }
        return k8s.apps.v1.StatefulSet(
            DATABASE,
            metadata={"name": DATABASE, "namespace": SLURM_NAMESPACE, "labels": labels},
            spec=raw(
                {
                    "replicas": 1,
                    "serviceName": DATABASE,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": pod},
                }
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[service, secret]),
        )
