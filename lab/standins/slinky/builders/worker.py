"""NodeSet -> one slurmd pod per ordinal, the cluster's worker Service and disruption budget."""

from __future__ import annotations

from typing import Final

from lab.standins.slinky import merge, names
from lab.standins.slinky.builders import common, confs, ssh
from lab.standins.slinky.objects import (
    Obj,
    app_labels,
    dig,
    name_of,
    namespace_of,
    owner,
    passed_on,
    selector_labels,
    short_hash,
)
from lab.standins.slinky.quantity import whole

APP: Final = "slurmd"
KIND: Final = "NodeSet"
PRE_STOP: Final = "scontrol update nodename=$(hostname) state=down reason='slurm-operator: Pod is terminating';"
_REVISION_FIELDS: Final = ("controllerRef", "slurmd", "ssh", "logfile", "template", "extraConf", "volumeClaimTemplates")


def labels(nodeset: Obj) -> dict[str, str]:
    """Labels of a NodeSet's pods."""
    return {
        **app_labels(APP, "worker", name_of(nodeset)),
        names.CLUSTER: dig(nodeset, "spec", "controllerRef", "name", default=""),
    }


def selector(nodeset: Obj) -> str:
    """Label selector of a NodeSet's pods, as text (status.selector)."""
    return ",".join(f"{key}={value}" for key, value in sorted(selector_labels(APP, name_of(nodeset)).items()))


def revision(nodeset: Obj) -> str:
    """Hash of what shapes a pod; a pod of another hash is old."""
    return short_hash({field: dig(nodeset, "spec", field) for field in _REVISION_FIELDS})


def pod_name(nodeset: Obj, ordinal: int) -> str:
    """``<nodeset>-<ordinal>``, the ordinal padded with zeros to ``ordinalPadding`` digits."""
    return f"{name_of(nodeset)}-{_padded(nodeset, ordinal)}"


def _padded(nodeset: Obj, ordinal: int) -> str:
    return str(ordinal).zfill(dig(nodeset, "spec", "ordinalPadding", default=0))


def pod(nodeset: Obj, controller: Obj, ordinal: int, hashes: dict[str, str]) -> Obj:
    """The slurmd pod of one ordinal: same ordinal, same Slurm node name, whichever host it lands on."""
    spec: Obj = nodeset["spec"]
    name = pod_name(nodeset, ordinal)
    with_ssh = bool(dig(spec, "ssh", "enabled", default=False))
    service = names.worker_service(name_of(controller))
    built: Obj = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "subdomain": service,
        "dnsConfig": {"searches": [names.worker_search_domain(name_of(controller), namespace_of(nodeset))]},
        "initContainers": [common.logfile_container(spec.get("logfile"), "/var/log/slurm/slurmd.log")],
        "containers": [_container(nodeset, controller, with_ssh=with_ssh)],
        "tolerations": [{"key": names.WORKER_TOLERATION, "operator": "Equal", "effect": "NoExecute"}],
        "volumes": _volumes(nodeset, controller, with_ssh=with_ssh),
    }
    annotations = passed_on(nodeset, hashes, {names.DEFAULT_CONTAINER: APP, names.TOPOLOGY_SPEC: ""})
    out = common.pod_template(name, nodeset, {"labels": labels(nodeset), "annotations": annotations}, built)
    prefix = out["spec"].get("hostname")
    hostname = f"{prefix}{_padded(nodeset, ordinal)}" if prefix else name
    out["spec"]["hostname"] = hostname
    out["spec"].pop("nodeName", None)
    if not spec.get("oversubscribeNode", False):
        out["spec"]["affinity"] = _one_per_host(out["spec"].get("affinity"))
    out["metadata"].update({"generateName": f"{name_of(nodeset)}-", "ownerReferences": [owner(nodeset, KIND)]})
    out["metadata"]["labels"].update(
        {
            names.CONTROLLER_HASH: revision(nodeset),
            names.POD_NAME: name,
            names.POD_INDEX: _padded(nodeset, ordinal),
            names.POD_HOSTNAME: hostname,
            names.SCALING_MODE: "StatefulSet",
        }
    )
    return {"apiVersion": "v1", "kind": "Pod", **out}


def _one_per_host(affinity: Obj | None) -> Obj:
    term: Obj = {
        "labelSelector": {"matchExpressions": [{"key": names.APP_NAME, "operator": "In", "values": [APP]}]},
        "topologyKey": "kubernetes.io/hostname",
    }
    out = dict(affinity or {})
    anti: Obj = dict(out.get("podAntiAffinity") or {})
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    anti[field] = [*(anti.get(field) or []), term]
    out["podAntiAffinity"] = anti
    return out


def conf_argument(nodeset: Obj) -> str:
    """The value of slurmd's ``--conf``, with the shell quotes that the image's entry point takes off.

    Raises ValueError for an ``extraConf`` item without ``=``.
    """
    feature = confs.slurm_set_name(nodeset)
    items = {"Features": feature, "Topology": "'\"$SLINKY_TOPOLOGY\"'"}
    for item in dig(nodeset, "spec", "extraConf", default="").split():
        key, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"NodeSet {name_of(nodeset)}: spec.extraConf item {item!r} must be Key=Value")
        key = key[:1].upper() + key[1:].lower()
        key = "Features" if key == "Feature" else key
        items[key] = f"{items[key]},{value}" if key in items else value
    return "'" + " ".join(sorted(f"{key}={value}" for key, value in items.items())) + "'"


def _limits(nodeset: Obj) -> tuple[int, int]:
    """CPUs and MiB of memory that slurmd may use; the container's limits before the pod's."""
    spec: Obj = nodeset["spec"]
    of_pod: Obj = dig(spec, "template", "spec", "resources", "limits", default={})
    of_container: Obj = dig(spec, "slurmd", "resources", "limits", default={})
    cpus = whole(of_container.get("cpu")) or whole(of_pod.get("cpu"))
    memory = whole(of_container.get("memory")) or whole(of_pod.get("memory"))
    return cpus, memory // 2**20


def _container(nodeset: Obj, controller: Obj, *, with_ssh: bool) -> Obj:
    cpus, memory_mib = _limits(nodeset)
    ports: list[Obj] = [{"name": APP, "containerPort": names.SLURMD_PORT, "protocol": "TCP"}]
    mounts: list[Obj] = [
        {"name": common.SLURM_ETC, "mountPath": common.ETC_DIR, "readOnly": True},
        {"name": common.LOG_VOLUME, "mountPath": common.LOG_DIR},
    ]
    if with_ssh:
        ports.append({"name": "ssh", "containerPort": names.SSH_PORT, "protocol": "TCP"})
        mounts.append(ssh.mount(ssh.SSH_CONFIG, "/etc/ssh/sshd_config", "sshd_config"))
        mounts.append(ssh.mount(ssh.SSSD_CONF, "/etc/sssd/sssd.conf", "sssd.conf"))
    field = f"metadata.annotations['{names.TOPOLOGY_SPEC}']"
    base: Obj = {
        "name": APP,
        "args": ["-Z", *common.conf_server(controller), "--conf", conf_argument(nodeset)],
        "env": [
            {"name": "SLINKY_TOPOLOGY", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": field}}},
            {"name": "POD_CPUS", "value": str(cpus)},
            {"name": "POD_MEMORY", "value": str(memory_mib)},
        ],
        "ports": ports,
        "startupProbe": common.http_probe("/livez", APP, 6),
        "readinessProbe": common.http_probe("/readyz", APP, 3),
        "livenessProbe": common.http_probe("/livez", APP, 6),
        "lifecycle": {"preStop": {"exec": {"command": ["/usr/bin/sh", "-c", PRE_STOP]}}},
        "securityContext": {
            "privileged": True,
            "capabilities": {"add": ["BPF", "NET_ADMIN", "SYS_ADMIN", "SYS_NICE"]},
        },
        "volumeMounts": mounts,
    }
    return merge.container(base, dig(nodeset, "spec", "slurmd"))


def _volumes(nodeset: Obj, controller: Obj, *, with_ssh: bool) -> list[Obj]:
    out = [
        common.projected(common.SLURM_ETC, 0o600, [common.secret_item(controller["spec"]["slurmKeyRef"], "slurm.key")]),
        common.memory_volume(common.LOG_VOLUME),
    ]
    if with_ssh:
        out.append(ssh.config_volume(name_of(nodeset), ["sshd_config"]))
        out.append(ssh.sssd_volume(nodeset["spec"]["ssh"]["sssdConfRef"], 0o600))
    return out


def worker_service(controller_name: str, namespace: str, nodesets: list[Obj]) -> Obj:
    """Headless Service in which every Slurm node name of the cluster resolves; owned by all its NodeSets."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _shared_meta(names.worker_service(controller_name), namespace, nodesets),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.APP_NAME: APP, names.CLUSTER: controller_name},
            "ports": [{"name": APP, "port": names.SLURMD_PORT, "targetPort": APP, "protocol": "TCP"}],
        },
    }


def worker_pdb(controller_name: str, namespace: str, nodesets: list[Obj]) -> Obj:
    """Disruption budget that lets no busy worker of the cluster be evicted."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _shared_meta(names.worker_pdb(controller_name), namespace, nodesets),
        "spec": {
            "maxUnavailable": 0,
            "selector": {"matchLabels": {names.POD_PROTECT: "true", names.CLUSTER: controller_name}},
        },
    }


def _shared_meta(name: str, namespace: str, nodesets: list[Obj]) -> Obj:
    owners = [owner(one, KIND, controller=False) for one in sorted(nodesets, key=name_of)]
    return {"name": name, "namespace": namespace, "ownerReferences": owners}
