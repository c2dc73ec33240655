"""Accounting -> StatefulSet of slurmdbd, its config Secret and its Service."""

from __future__ import annotations

from typing import Final

from lab.standins.slinky import merge, names
from lab.standins.slinky.builders import common, confs
from lab.standins.slinky.objects import Obj, app_labels, dig, encoded, meta, name_of, passed_on, selector_labels

APP: Final = "slurmdbd"
KIND: Final = "Accounting"
CONF_FILE: Final = "slurmdbd.conf"


def labels(accounting: Obj) -> dict[str, str]:
    """Labels of everything that belongs to slurmdbd."""
    return app_labels(APP, "accounting", name_of(accounting))


def config_secret(accounting: Obj, storage_password: str) -> Obj:
    """Secret ``<name>-accounting`` with slurmdbd.conf."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": meta(names.accounting(name_of(accounting)), accounting, KIND, labels(accounting)),
        "data": encoded({CONF_FILE: confs.slurmdbd_conf(accounting, storage_password)}),
    }


def service(accounting: Obj) -> Obj:
    """Service ``<name>-accounting`` on 6819."""
    name = name_of(accounting)
    return common.service(
        names.accounting(name),
        accounting,
        KIND,
        labels(accounting),
        selector_labels(APP, name),
        port_name=APP,
        port=names.SLURMDBD_PORT,
        user=dig(accounting, "spec", "service"),
    )


def stateful_set(accounting: Obj, hashes: dict[str, str]) -> Obj:
    """slurmdbd as Slurm's user. ``hashes``: pod annotations whose change restarts it."""
    spec: Obj = accounting["spec"]
    name = name_of(accounting)
    base: Obj = {
        "name": APP,
        "ports": [{"name": APP, "containerPort": names.SLURMDBD_PORT, "protocol": "TCP"}],
        "readinessProbe": {"tcpSocket": {"port": names.SLURMDBD_PORT}},
        "securityContext": common.run_as(names.SLURM_UID),
        "volumeMounts": [
            {"name": common.SLURM_ETC, "mountPath": common.ETC_DIR, "readOnly": True},
            {"name": "run", "mountPath": "/run"},
        ],
    }
    sources = [
        common.secret_item({"name": names.accounting(name), "key": CONF_FILE}, CONF_FILE),
        common.secret_item(spec["slurmKeyRef"], "slurm.key"),
        common.secret_item(common.jwt_ref(spec), "jwt.key"),
    ]
    pod: Obj = {
        "automountServiceAccountToken": False,
        "containers": [merge.container(base, spec.get("slurmdbd"))],
        "securityContext": common.run_as(names.SLURM_UID, fsGroup=names.SLURM_UID),
        "volumes": [common.projected(common.SLURM_ETC, 0o600, sources), common.memory_volume("run")],
    }
    annotations = passed_on(accounting, hashes, {names.DEFAULT_CONTAINER: APP})
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": meta(names.accounting(name), accounting, KIND, labels(accounting), passed_on(accounting)),
        "spec": {
            "podManagementPolicy": "Parallel",
            "replicas": 1,
            "revisionHistoryLimit": 0,
            "selector": {"matchLabels": selector_labels(APP, name)},
            "serviceName": names.accounting(name),
            "template": common.pod_template(
                names.accounting(name), accounting, {"labels": labels(accounting), "annotations": annotations}, pod
            ),
        },
    }
