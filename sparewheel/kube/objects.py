"""Small pure helpers on objects as plain JSON: merge patch and selectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from sparewheel.kube.port import Json, Resource

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


def clone(value: Any) -> Any:
    """A deep copy of plain JSON, as it is on the other side of a wire."""
    return _decode(_encode(value))


def merged(target: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386): null removes, objects are merged, all else is replaced. Shares what stays."""
    if not isinstance(patch, dict):
        return clone(patch)
    result: Json = {**cast("Json", target)} if isinstance(target, dict) else {}
    for key, value in cast("Json", patch).items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def labels_match(body: Json, wanted: Mapping[str, str]) -> bool:
    labels = cast("dict[str, str]", body["metadata"].get("labels") or {})
    return all(labels.get(key) == value for key, value in wanted.items())


def fields_match(body: Json, selector: str | None) -> bool:
    for term in (selector or "").split(","):
        if not term:
            continue
        path, _, wanted = term.partition("=")
        negated = path.endswith("!")
        value: Any = body
        for part in path.rstrip("!").split("."):
            value = cast("Json", value).get(part) if isinstance(value, dict) else None
        if (str(value or "") == wanted.lstrip("=")) == negated:
            return False
    return True


def same_but_for_version(one: Json, other: Json) -> bool:
    """Would a write of the one over the other change anything?"""
    return _versionless(one) == _versionless(other)


def _versionless(body: Json) -> Json:
    kept = {key: value for key, value in body["metadata"].items() if key not in {"resourceVersion", "generation"}}
    return {**body, "metadata": kept}


def budget_blocks(budgets: Iterable[tuple[tuple[str, str], Json]], pod: Json, namespace: str) -> bool:
    """Does a PodDisruptionBudget, by namespace and name, forbid the pod's eviction now?"""
    for (space, _), budget in budgets:
        selector = budget.get("spec", {}).get("selector", {}).get("matchLabels", {})
        if space == namespace and labels_match(pod, selector):
            return int(budget.get("status", {}).get("disruptionsAllowed", 0)) == 0
    return False


def selector_of(labels: Mapping[str, str] | None) -> dict[str, str]:
    if not labels:
        return {}
    return {"labelSelector": ",".join(f"{key}={value}" for key, value in sorted(labels.items()))}


def typed(resource: Resource, body: Json) -> Json:
    """With apiVersion and kind: custom kinds insist on them, and a list's items lack what is the same for all."""
    version = f"{resource.group}/{resource.version}" if resource.group else resource.version
    return {"apiVersion": version, "kind": resource.kind, **body}
