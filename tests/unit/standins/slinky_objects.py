"""Slinky objects as a user writes them, for the stand-in's tests."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]


def meta(name: str, **more: Any) -> Obj:
    return {"name": name, "namespace": "slurm", "uid": f"uid-{name}", "generation": 1, **more}


def controller(**spec: Any) -> Obj:
    return {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "Controller",
        "metadata": meta("slurm"),
        "spec": {
            "slurmKeyRef": {"name": "slurm-auth", "key": "slurm.key"},
            "jwtKeyRef": {"name": "slurm-auth", "key": "jwt_hs256.key"},
            "configFileRefs": [{"name": "slurm-extra"}],
            "slurmctld": {"image": "x/slurmctld:26.05", "imagePullPolicy": "Never"},
            "reconfigure": {"image": "x/base:26.05"},
            "logfile": {"image": "x/base:26.05"},
            "persistence": {"enabled": False},
            "extraConf": "KillWait=120\nReturnToService=1",
            **spec,
        },
    }


def nodeset(**spec: Any) -> Obj:
    return {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "NodeSet",
        "metadata": meta("gpu"),
        "spec": {
            "controllerRef": {"name": "slurm"},
            "replicas": 2,
            "slurmd": {"image": "x/slurmd:26.05", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}},
            "logfile": {"image": "x/base:26.05"},
            "partition": {"enabled": True},
            "extraConf": "Gres=gpu:8",
            **spec,
        },
    }


def restapi(**spec: Any) -> Obj:
    return {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "RestApi",
        "metadata": meta("slurm"),
        "spec": {"controllerRef": {"name": "slurm"}, "replicas": 1, "slurmrestd": {"image": "x/slurmrestd"}, **spec},
    }


def loginset(**spec: Any) -> Obj:
    return {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "LoginSet",
        "metadata": meta("login"),
        "spec": {
            "controllerRef": {"name": "slurm"},
            "login": {"image": "x/login"},
            "initconf": {"image": "x/base"},
            "sssdConfRef": {"name": "sssd", "key": "sssd.conf"},
            **spec,
        },
    }


def accounting(**spec: Any) -> Obj:
    return {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "Accounting",
        "metadata": meta("slurm"),
        "spec": {
            "slurmKeyRef": {"name": "slurm-auth", "key": "slurm.key"},
            "jwtKeyRef": {"name": "slurm-auth", "key": "jwt_hs256.key"},
            "slurmdbd": {"image": "x/slurmdbd"},
            "storageConfig": {
                "host": "mariadb",
                "username": "slurm",
                "passwordKeyRef": {"name": "mariadb-password", "key": "password"},
            },
            **spec,
        },
    }


def token(**spec: Any) -> Obj:
    return {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "Token",
        "metadata": meta("sparewheel"),
        "spec": {
            "jwtKeyRef": {"name": "slurm-auth", "key": "jwt_hs256.key"},
            "username": "slurm",
            "lifetime": "1h",
            "refresh": True,
            **spec,
        },
    }


def pod(
    ordinal: int,
    *,
    host: str = "",
    phase: str = "Running",
    ready: bool = True,
    annotations: dict[str, str] | None = None,
    deleting: bool = False,
    revision: str = "new",
) -> Obj:
    out: Obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(
            f"gpu-{ordinal}",
            annotations=annotations or {},
            labels={"controller.kubernetes.io/hash": revision, "app.kubernetes.io/name": "slurmd"},
            creationTimestamp="2026-11-29T10:00:00Z",
        ),
        "spec": {"hostname": f"gpu-{ordinal}"},
        "status": {"phase": phase},
    }
    if host:
        out["spec"]["nodeName"] = host
    if deleting:
        out["metadata"]["deletionTimestamp"] = "2026-11-29T11:00:00Z"
    since = "2026-11-29T10:00:30Z"
    status = "True" if ready else "False"
    out["status"]["conditions"] = [{"type": "Ready", "status": status, "lastTransitionTime": since}]
    return out


def node(name: str, *, cordoned: bool = False, reason: str | None = None) -> Obj:
    notes = {} if reason is None else {"nodeset.slinky.slurm.net/node-cordon-reason": reason}
    return {"kind": "Node", "metadata": {"name": name, "annotations": notes}, "spec": {"unschedulable": cordoned}}
