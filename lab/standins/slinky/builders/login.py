"""LoginSet -> Deployment of login pods and its Service (the ConfigMap and host keys are in ``ssh``)."""

from __future__ import annotations

from typing import Final

from lab.standins.slinky import merge, names, scripts
from lab.standins.slinky.builders import common, ssh
from lab.standins.slinky.objects import Obj, app_labels, dig, meta, name_of, passed_on, selector_labels

APP: Final = "login"
KIND: Final = "LoginSet"


def labels(loginset: Obj) -> dict[str, str]:
    """Labels of everything that belongs to a LoginSet."""
    return app_labels(APP, "login", name_of(loginset))


def service(loginset: Obj) -> Obj:
    """Service of the LoginSet's name on 22."""
    name = name_of(loginset)
    return common.service(
        name,
        loginset,
        KIND,
        labels(loginset),
        selector_labels(APP, name),
        port_name=APP,
        port=names.SSH_PORT,
        user=dig(loginset, "spec", "service"),
    )


def deployment(loginset: Obj, controller: Obj, hashes: dict[str, str]) -> Obj:
    """Login pods: sshd and sackd. ``hashes``: pod annotations whose change replaces them."""
    spec: Obj = loginset["spec"]
    name, namespace = name_of(loginset), loginset["metadata"]["namespace"]
    search = names.worker_search_domain(name_of(controller), namespace)
    pod: Obj = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "dnsConfig": {"searches": [search]},
        "initContainers": [_initconf(spec)],
        "containers": [_container(spec, controller)],
        "volumes": [
            common.memory_volume(common.SLURM_ETC),
            common.memory_volume("sackd-dir"),
            common.projected(
                "slurm-config", 0o600, [common.secret_item(controller["spec"]["slurmKeyRef"], "slurm.key")]
            ),
            ssh.host_key_volume(name),
            ssh.config_volume(name, ["sshd_config", "authorized_keys"]),
            ssh.sssd_volume(spec["sssdConfRef"], 0o600),
        ],
    }
    annotations = passed_on(loginset, hashes, {names.DEFAULT_CONTAINER: APP})
    out: Obj = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(name, loginset, KIND, labels(loginset), passed_on(loginset)),
        "spec": {
            "replicas": spec.get("replicas", 1),
            "revisionHistoryLimit": 0,
            "selector": {"matchLabels": selector_labels(APP, name)},
            "template": common.pod_template(
                name, loginset, {"labels": labels(loginset), "annotations": annotations}, pod
            ),
        },
    }
    if spec.get("strategy"):
        out["spec"]["strategy"] = spec["strategy"]
    return out


def _initconf(spec: Obj) -> Obj:
    base: Obj = {
        "name": "initconf",
        "command": ["sh", "-c", scripts.INITCONF],
        "env": [{"name": "SLURM_USER", "value": "slurm"}],
        "volumeMounts": [
            {"name": common.SLURM_ETC, "mountPath": "/mnt/etc/slurm"},
            {"name": "slurm-config", "mountPath": "/mnt/slurm", "readOnly": True},
        ],
    }
    return merge.container(base, spec.get("initconf"))


def _container(spec: Obj, controller: Obj) -> Obj:
    mounts: list[Obj] = [
        {"name": common.SLURM_ETC, "mountPath": common.ETC_DIR, "readOnly": True},
        {"name": "sackd-dir", "mountPath": "/run/slurm"},
        *(ssh.mount(ssh.HOST_KEYS, f"/etc/ssh/{file}", file) for file, _ in ssh.host_key_files()),
        ssh.mount(ssh.SSH_CONFIG, "/etc/ssh/sshd_config", "sshd_config"),
        ssh.mount(ssh.SSH_CONFIG, "/root/.ssh/authorized_keys", "authorized_keys"),
        ssh.mount(ssh.SSSD_CONF, "/etc/sssd/sssd.conf", "sssd.conf"),
    ]
    base: Obj = {
        "name": APP,
        "env": [{"name": "SACKD_OPTIONS", "value": " ".join(common.conf_server(controller))}],
        "ports": [{"name": APP, "containerPort": names.SSH_PORT, "protocol": "TCP"}],
        "readinessProbe": {
            "exec": {"command": ["test", "-S", "/run/slurm/sack.socket"]},
            "failureThreshold": 3,
            "periodSeconds": 10,
        },
        "volumeMounts": mounts,
    }
    return merge.container(base, spec.get("login"))
