"""Pieces that several components share: volumes, probes, side containers, Services."""

from __future__ import annotations

from typing import Any

from lab.standins.slinky import merge, names, scripts
from lab.standins.slinky.objects import Obj, dig, meta

SLURM_ETC = "slurm-etc"
LOG_VOLUME = "slurm-logfile"
LOG_DIR = "/var/log/slurm"
ETC_DIR = "/etc/slurm"
IN_MEMORY: Obj = {"medium": "Memory"}


def memory_volume(name: str) -> Obj:
    """An empty volume that lives in memory."""
    return {"name": name, "emptyDir": dict(IN_MEMORY)}


def secret_item(ref: Obj, path: str, mode: int | None = None) -> Obj:
    """Projection of one key of a Secret (``ref``: name and key) to a file."""
    item: Obj = {"key": ref["key"], "path": path}
    if mode is not None:
        item["mode"] = mode
    return {"secret": {"name": ref["name"], "items": [item]}}


def projected(name: str, mode: int, sources: list[Obj]) -> Obj:
    """A volume out of ConfigMaps and Secrets; ``mode`` for files without one."""
    return {"name": name, "projected": {"defaultMode": mode, "sources": sources}}


def jwt_ref(spec: Obj) -> Obj:
    """The JWT key's Secret: ``jwtKeyRef``, or its deprecated name."""
    found = spec.get("jwtKeyRef") or spec.get("jwtHs256KeyRef")
    if not found:
        raise ValueError("spec.jwtKeyRef is missing; name the Secret and key that hold the HS256 key")
    return found


def http_probe(path: str, port: str, failures: int) -> Obj:
    """An HTTP check every 10 s."""
    return {
        "httpGet": {"path": path, "port": port, "scheme": "HTTP"},
        "failureThreshold": failures,
        "periodSeconds": 10,
    }


def tcp_probe(port: int, failures: int) -> Obj:
    """A TCP check every 10 s."""
    return {"tcpSocket": {"port": port}, "failureThreshold": failures, "periodSeconds": 10}


def run_as(uid: int, **more: Any) -> Obj:
    """A security context for one unprivileged user and the group of the same number."""
    return {"runAsNonRoot": True, "runAsUser": uid, "runAsGroup": uid, **more}


def logfile_container(over: Obj | None, path: str) -> Obj:
    """Side container that prints a daemon's log file."""
    base: Obj = {
        "name": "logfile",
        "command": ["sh", "-c", scripts.LOGFILE],
        "env": [{"name": "SOCKET", "value": path}],
        "restartPolicy": "Always",
        "volumeMounts": [{"name": LOG_VOLUME, "mountPath": LOG_DIR}],
    }
    return merge.container(base, over)


def conf_server(controller: Obj) -> list[str]:
    """Arguments that tell a daemon where its configuration comes from."""
    external: Obj = dig(controller, "spec", "externalConfig", default={})
    if dig(controller, "spec", "external", default=False):
        return ["--conf-server", f"{external['host']}:{external['port']}"]
    service = names.controller_service(controller["metadata"]["name"])
    return ["--conf-server", f"{service}.{controller['metadata']['namespace']}:{names.SLURMCTLD_PORT}"]


def pod_template(name: str, parent: Obj, metadata: Obj, spec: Obj) -> Obj:
    """A pod template with the user's ``spec.template`` laid over what was built."""
    user = dig(parent, "spec", "template", default={})
    over: Obj | None = user.get("spec")
    built = {"name": name, "namespace": parent["metadata"]["namespace"], **metadata}
    return {"metadata": merge.metadata(built, user.get("metadata")), "spec": merge.pod_spec(spec, over)}


def service(
    name: str,
    parent: Obj,
    kind: str,
    labels: dict[str, str],
    selector: dict[str, str],
    *,
    port_name: str,
    port: int,
    user: Obj | None = None,
) -> Obj:
    """A Service of one port; ``user`` is the object's ``spec.service``."""
    user = user or {}
    one_port: Obj = {"name": port_name, "port": user.get("port") or port, "targetPort": port_name, "protocol": "TCP"}
    if user.get("nodePort"):
        one_port["nodePort"] = user["nodePort"]
    base: Obj = {"type": "ClusterIP", "selector": selector, "ports": [one_port]}
    over: Obj = dict(user.get("spec") or {})
    for own in ("selector", "ports"):
        over.pop(own, None)
    spec = merge.strategic(base, over)
    metadata = meta(name, parent, kind, labels)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": merge.metadata(metadata, user.get("metadata")),
        "spec": spec,
    }
