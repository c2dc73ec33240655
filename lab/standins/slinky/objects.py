"""Reading and making Kubernetes objects as plain dictionaries."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from lab.standins.slinky import names

Obj = dict[str, Any]
"""A Kubernetes object or a part of one, as JSON gives it."""

_NOT_PASSED_ON = "kubectl.kubernetes.io/last-applied-configuration"


def dig(obj: Mapping[str, Any] | None, *path: str, default: Any = None) -> Any:
    """The value at ``path``; ``default`` where a part of the path is missing or null."""
    at: Any = obj
    for key in path:
        if not isinstance(at, dict):
            return default
        at = at.get(key)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return default if at is None else at  # pyright: ignore[reportUnknownVariableType]


def name_of(obj: Obj) -> str:
    """metadata.name."""
    return str(obj["metadata"]["name"])


def namespace_of(obj: Obj) -> str:
    """metadata.namespace, empty for cluster-wide objects."""
    return str(dig(obj, "metadata", "namespace", default=""))


def uid_of(obj: Obj) -> str:
    """metadata.uid, empty before the API server has given one."""
    return str(dig(obj, "metadata", "uid", default=""))


def labels_of(obj: Obj) -> dict[str, str]:
    """metadata.labels, never None."""
    return dig(obj, "metadata", "labels", default={})


def annotations_of(obj: Obj) -> dict[str, str]:
    """metadata.annotations, never None."""
    return dig(obj, "metadata", "annotations", default={})


def is_deleting(obj: Obj) -> bool:
    """True once a delete was accepted; the object may stay for long after."""
    return dig(obj, "metadata", "deletionTimestamp") is not None


def condition(obj: Obj, kind: str) -> Obj | None:
    """The status condition of this type."""
    conditions: list[Obj] = dig(obj, "status", "conditions", default=[])
    return next((one for one in conditions if one.get("type") == kind), None)


def owner(obj: Obj, kind: str, *, controller: bool = True) -> Obj:
    """An owner reference to ``obj``; ``controller`` for its one managing owner."""
    reference: Obj = {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "name": name_of(obj),
        "uid": uid_of(obj),
        "blockOwnerDeletion": True,
    }
    if controller:
        reference["controller"] = True
    return reference


def controller_of(obj: Obj) -> Obj | None:
    """The owner reference with ``controller: true``."""
    references: list[Obj] = dig(obj, "metadata", "ownerReferences", default=[])
    return next((one for one in references if one.get("controller")), None)


def passed_on(obj: Obj, *more: Mapping[str, str]) -> dict[str, str]:
    """Annotations of ``obj`` that its children get too, with ``more`` on top."""
    out = {key: value for key, value in annotations_of(obj).items() if key != _NOT_PASSED_ON}
    for one in more:
        out.update(one)
    return out


def meta(
    name: str,
    parent: Obj,
    kind: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
) -> Obj:
    """Metadata of a child of ``parent``: same namespace, owned, labelled."""
    return {
        "name": name,
        "namespace": namespace_of(parent),
        "labels": {**labels_of(parent), **labels},
        "annotations": dict(annotations or {}),
        "ownerReferences": [owner(parent, kind)],
    }


def app_labels(app: str, component: str, instance: str) -> dict[str, str]:
    """The three labels that every object of a component bears."""
    return {names.APP_NAME: app, names.APP_INSTANCE: instance, names.APP_COMPONENT: component}


def selector_labels(app: str, instance: str) -> dict[str, str]:
    """The two labels by which a component's pods are found."""
    return {names.APP_NAME: app, names.APP_INSTANCE: instance}


def checksum(data: Mapping[str, str] | str | bytes) -> str:
    """A stable hash of contents; of a mapping, of its keys and values in order."""
    if isinstance(data, bytes):
        return hashlib.sha256(data).hexdigest()
    text = data if isinstance(data, str) else json.dumps(dict(data), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


_SAFE_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def short_hash(value: Any) -> str:
    """Ten letters and digits that can't spell words, for a revision label."""
    number = int.from_bytes(hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()[:16], "big")
    letters: list[str] = []
    for _ in range(10):
        number, rest = divmod(number, len(_SAFE_LETTERS))
        letters.append(_SAFE_LETTERS[rest])
    return "".join(letters)


def parse_time(text: str | None) -> datetime | None:
    """An RFC3339 time as the API server writes it."""
    if not text:
        return None
    return datetime.fromisoformat(text)


def format_time(when: datetime) -> str:
    """RFC3339 in UTC, whole seconds, as Kubernetes writes it."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def by_key(objects: Iterable[Obj]) -> dict[str, Obj]:
    """Objects by name."""
    return {name_of(one): one for one in objects}


def encoded(data: Mapping[str, str]) -> dict[str, str]:
    """Text as the ``data`` of a Secret."""
    return {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}


def decoded(secret: Obj) -> dict[str, bytes]:
    """The contents of a Secret."""
    data: dict[str, str] = secret.get("data") or {}
    return {key: base64.b64decode(value) for key, value in data.items()}
