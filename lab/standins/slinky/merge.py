"""A user's container and pod fields laid over what the operator builds, as Kubernetes' strategic merge does it.

Lists with a merge key are merged item by item, others (tolerations among them) replaced; ``args`` are appended, a
probe's or lifecycle's action displaces the built one (the operator's own rules, ``internal/builder/common``).
"""

from __future__ import annotations

import copy
from typing import Any, Final

from lab.standins.slinky.objects import Obj

# Merge keys of the lists in a pod's spec (Kubernetes API: patchMergeKey).
_MERGE_KEYS: Final[dict[str, str]] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "schedulingGates": "name",
    "resourceClaims": "name",
}
_PORTS: Final = "ports"
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_ACTIONS: Final = ("exec", "httpGet", "tcpSocket", "grpc")


def strategic(base: Obj, over: Obj) -> Obj:
    """``over`` laid over ``base``; neither is changed. A null removes, an empty list or map leaves as it is."""
    out = copy.deepcopy(base)
    for key, value in over.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict) and isinstance(out.get(key), dict):
            out[key] = strategic(out[key], value)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, list) and isinstance(out.get(key), list):
            out[key] = _merge_list(key, out[key], value)  # pyright: ignore[reportUnknownArgumentType]
        else:
            out[key] = copy.deepcopy(value)  # pyright: ignore[reportUnknownArgumentType]
    return out


def _merge_list(key: str, base: list[Any], over: list[Any]) -> list[Any]:
    if not over:
        return copy.deepcopy(base)
    merge_key = "containerPort" if key == _PORTS else _MERGE_KEYS.get(key)
    if merge_key is None:
        return copy.deepcopy(over)
    out: list[Any] = copy.deepcopy(base)
    index = {one.get(merge_key): at for at, one in enumerate(out)}
    for one in over:
        at = index.get(one.get(merge_key))
        if at is None:
            out.append(copy.deepcopy(one))
        else:
            out[at] = strategic(out[at], one)
    return out


def container(base: Obj, over: Obj | None) -> Obj:
    """A container with the user's fields (``spec.slurmd`` and its like) on it."""
    over = copy.deepcopy(over or {})
    base = copy.deepcopy(base)
    over.pop("name", None)
    more_args: list[str] = over.pop("args", None) or []
    if more_args:
        base["args"] = [*base.get("args", []), *more_args]
    for probe in _PROBES:
        if any(action in over.get(probe, {}) for action in _ACTIONS):
            for action in _ACTIONS:
                base.get(probe, {}).pop(action, None)
    for hook in ("postStart", "preStop"):
        if over.get("lifecycle", {}).get(hook):
            base.get("lifecycle", {}).pop(hook, None)
    return strategic(base, over)


def pod_spec(base: Obj, over: Obj | None) -> Obj:
    """A pod's spec with the user's ``template.spec`` on it."""
    over = copy.deepcopy(over or {})
    # The built containers come first; a user's container of the same name is laid over it.
    return strategic(base, over)


def metadata(base: Obj, over: Obj | None) -> Obj:
    """Labels and annotations with the user's ``template.metadata`` below the operator's own."""
    over = over or {}
    return {
        **base,
        "labels": {**over.get("labels", {}), **base.get("labels", {})},
        "annotations": {**over.get("annotations", {}), **base.get("annotations", {})},
    }
