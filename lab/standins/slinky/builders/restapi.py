"""RestApi -> Deployment of slurmrestd and its Service."""

from __future__ import annotations

from typing import Final

from lab.standins.slinky import merge, names
from lab.standins.slinky.builders import common
from lab.standins.slinky.objects import Obj, app_labels, dig, meta, name_of, passed_on, selector_labels

APP: Final = "slurmrestd"
KIND: Final = "RestApi"


def labels(restapi: Obj) -> dict[str, str]:
    """Labels of everything that belongs to slurmrestd."""
    return app_labels(APP, "restapi", name_of(restapi))


def service(restapi: Obj) -> Obj:
    """Service ``<name>-restapi`` on 6820."""
    name = name_of(restapi)
    return common.service(
        names.restapi(name),
        restapi,
        KIND,
        labels(restapi),
        selector_labels(APP, name),
        port_name=APP,
        port=names.SLURMRESTD_PORT,
        user=dig(restapi, "spec", "service"),
    )


def deployment(restapi: Obj, controller: Obj) -> Obj:
    """slurmrestd as nobody; with accounting it serves slurmdbd's part too."""
    name = name_of(restapi)
    plugins = "openapi/slurmctld"
    if dig(controller, "spec", "accountingRef", "name"):
        plugins += ",openapi/slurmdbd"
    base: Obj = {
        "name": APP,
        "args": ["-s", plugins, f"0.0.0.0:{names.SLURMRESTD_PORT}"],
        "env": [
            {"name": "SLURM_JWT", "value": "daemon"},
            {"name": "SLURMRESTD_SECURITY", "value": "disable_unshare_files,disable_unshare_sysv"},
        ],
        "ports": [{"name": APP, "containerPort": names.SLURMRESTD_PORT, "protocol": "TCP"}],
        "startupProbe": common.tcp_probe(names.SLURMRESTD_PORT, 6),
        "readinessProbe": common.tcp_probe(names.SLURMRESTD_PORT, 3),
        "livenessProbe": common.tcp_probe(names.SLURMRESTD_PORT, 6),
        "securityContext": common.run_as(names.NOBODY_UID),
        "volumeMounts": [{"name": common.SLURM_ETC, "mountPath": common.ETC_DIR, "readOnly": True}],
    }
    conf: Obj = {
        "configMap": {
            "name": names.config_map(name_of(controller)),
            "items": [{"key": "slurm.conf", "path": "slurm.conf"}],
        }
    }
    pod: Obj = {
        "automountServiceAccountToken": False,
        "containers": [merge.container(base, dig(restapi, "spec", "slurmrestd"))],
        "securityContext": common.run_as(names.NOBODY_UID, fsGroup=names.NOBODY_UID),
        "volumes": [
            common.projected(
                common.SLURM_ETC, 0o600, [conf, common.secret_item(controller["spec"]["slurmKeyRef"], "slurm.key")]
            )
        ],
    }
    annotations = passed_on(restapi, {names.DEFAULT_CONTAINER: APP})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(names.restapi(name), restapi, KIND, labels(restapi), passed_on(restapi)),
        "spec": {
            "replicas": dig(restapi, "spec", "replicas", default=1),
            "revisionHistoryLimit": 0,
            "selector": {"matchLabels": selector_labels(APP, name)},
            "template": common.pod_template(
                names.restapi(name), restapi, {"labels": labels(restapi), "annotations": annotations}, pod
            ),
        },
    }
