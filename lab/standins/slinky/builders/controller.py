"""Controller -> StatefulSet of slurmctld, its ConfigMap and its two Services."""

from __future__ import annotations

from typing import Final

from lab.standins.slinky import merge, names, scripts
from lab.standins.slinky.builders import common, confs
from lab.standins.slinky.objects import Obj, app_labels, dig, meta, name_of, namespace_of, passed_on, selector_labels

APP: Final = "slurmctld"
KIND: Final = "Controller"
STATE_VOLUME: Final = "statesave"
REF_FIELDS: Final = {
    "Prolog": "prologScriptRefs",
    "Epilog": "epilogScriptRefs",
    "PrologSlurmctld": "prologSlurmctldScriptRefs",
    "EpilogSlurmctld": "epilogSlurmctldScriptRefs",
}


def labels(controller: Obj) -> dict[str, str]:
    """Labels of everything that belongs to slurmctld."""
    return app_labels(APP, "controller", name_of(controller))


def extra_config_maps(controller: Obj) -> list[str]:
    """Names of the user's ConfigMaps that are mounted beside slurm.conf."""
    out: list[str] = []
    for field in ("configFileRefs", *REF_FIELDS.values()):
        out += refs(controller, field)
    return sorted(out)


def refs(controller: Obj, field: str) -> list[str]:
    """Names in one of the spec's lists of references."""
    given: list[Obj] = dig(controller, "spec", field, default=[])
    return [str(ref.get("name", "")) for ref in given]


def config_map(controller: Obj, slurm_conf: str, *, with_cgroup_conf: bool) -> Obj:
    """ConfigMap with slurm.conf; cgroup.conf only where the user brings none."""
    data = {"slurm.conf": slurm_conf}
    if with_cgroup_conf:
        data["cgroup.conf"] = confs.cgroup_conf()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta(
            names.config_map(name_of(controller)), controller, KIND, labels(controller), passed_on(controller)
        ),
        "immutable": False,
        "data": data,
    }


def services(controller: Obj) -> list[Obj]:
    """The Service for clients, and the headless one that names the pod."""
    name = name_of(controller)
    select = selector_labels(APP, name)
    user: Obj | None = dig(controller, "spec", "service")
    public = common.service(
        names.controller_service(name),
        controller,
        KIND,
        labels(controller),
        {**select, names.CONTROLLER_ACTIVE: "true"},
        port_name=APP,
        port=names.SLURMCTLD_PORT,
        user=user,
    )
    internal = common.service(
        names.controller_internal_service(name),
        controller,
        KIND,
        labels(controller),
        select,
        port_name=APP,
        port=names.SLURMCTLD_PORT,
    )
    internal["spec"].update({"publishNotReadyAddresses": True, "clusterIP": "None"})
    return [public, internal]


def stateful_set(controller: Obj, hashes: dict[str, str]) -> Obj:
    """slurmctld. ``hashes``: pod annotations whose change restarts it."""
    spec: Obj = controller["spec"]
    name = name_of(controller)
    select = selector_labels(APP, name)
    pod: Obj = {
        "automountServiceAccountToken": False,
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": select}, "topologyKey": "kubernetes.io/hostname"}
                ]
            }
        },
        "initContainers": _init_containers(spec),
        "containers": [_container(controller)],
        "securityContext": common.run_as(names.SLURM_UID, fsGroup=names.SLURM_UID),
        "volumes": _volumes(controller),
    }
    annotations = passed_on(controller, hashes, {names.DEFAULT_CONTAINER: APP})
    template = common.pod_template(
        names.controller_service(name),
        controller,
        {"labels": labels(controller), "annotations": annotations},
        pod,
    )
    out: Obj = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": meta(names.controller_service(name), controller, KIND, labels(controller), passed_on(controller)),
        "spec": {
            "replicas": 1,
            "revisionHistoryLimit": 0,
            "selector": {"matchLabels": select},
            "serviceName": names.controller_internal_service(name),
            "template": template,
        },
    }
    persistence: Obj = spec.get("persistence") or {}
    volumes: list[Obj] = template["spec"]["volumes"]
    if not persistence.get("enabled", True):
        volumes.append({"name": STATE_VOLUME, "emptyDir": {}})
    elif persistence.get("existingClaim"):
        claim = {"claimName": persistence["existingClaim"]}
        volumes.append({"name": STATE_VOLUME, "persistentVolumeClaim": claim})
    else:
        claim_spec = {key: value for key, value in persistence.items() if key not in {"enabled", "existingClaim"}}
        out["spec"]["volumeClaimTemplates"] = [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": STATE_VOLUME, "namespace": namespace_of(controller)},
                "spec": claim_spec,
            }
        ]
    return out


def _init_containers(spec: Obj) -> list[Obj]:
    logfile = common.logfile_container(spec.get("logfile"), "/var/log/slurm/slurmctld.log")
    if not spec.get("inplaceReconfigure", False):
        return [logfile]
    reconfigure: Obj = {
        "name": "reconfigure",
        "command": ["sh", "-c", scripts.RECONFIGURE],
        "restartPolicy": "Always",
        "volumeMounts": [
            {"name": common.SLURM_ETC, "mountPath": common.ETC_DIR, "readOnly": True},
            {"name": "slurm-authsocket", "mountPath": "/run/slurmctld", "readOnly": True},
        ],
    }
    return [merge.container(reconfigure, spec.get("reconfigure")), logfile]


def _container(controller: Obj) -> Obj:
    state_dir = f"{confs.SPOOL_DIR}/{confs.cluster_name(controller)}"
    base: Obj = {
        "name": APP,
        "ports": [{"name": APP, "containerPort": names.SLURMCTLD_PORT, "protocol": "TCP"}],
        "startupProbe": common.http_probe("/livez", APP, 6),
        "readinessProbe": common.http_probe("/readyz", APP, 3),
        "livenessProbe": common.http_probe("/livez", APP, 6),
        "securityContext": common.run_as(names.SLURM_UID),
        "volumeMounts": [
            {"name": common.SLURM_ETC, "mountPath": common.ETC_DIR, "readOnly": True},
            {"name": "run", "mountPath": "/run"},
            {"name": STATE_VOLUME, "mountPath": state_dir},
            {"name": "slurm-authsocket", "mountPath": "/run/slurmctld"},
            {"name": common.LOG_VOLUME, "mountPath": common.LOG_DIR},
        ],
    }
    return merge.container(base, dig(controller, "spec", "slurmctld"))


def _volumes(controller: Obj) -> list[Obj]:
    spec: Obj = controller["spec"]
    sources: list[Obj] = [
        {"configMap": {"name": names.config_map(name_of(controller))}},
        common.secret_item(spec["slurmKeyRef"], "slurm.key"),
        common.secret_item(common.jwt_ref(spec), "jwt.key"),
        *({"configMap": {"name": name}} for name in extra_config_maps(controller)),
    ]
    return [
        common.projected(common.SLURM_ETC, 0o610, sources),
        common.memory_volume(common.LOG_VOLUME),
        common.memory_volume("run"),
        {"name": "slurm-authsocket", "emptyDir": {}},
    ]
