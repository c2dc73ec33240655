"""The rules, one per function: a resource's inputs in, sentences about what is wrong out. No engine, no I/O.

Each rule judges inputs alone, so that it holds in a preview as well, when a resource's outputs aren't known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from sparewheel.api.gpu_pool import MAX_GRACE_SECONDS
from sparewheel.api.names import LABEL_VETO

Props = Mapping[str, Any]
Rule = Callable[[str, Props], Iterator[str]]


def no_wildcard_rights(resource_type: str, props: Props) -> Iterator[str]:
    """A role names each group, resource and verb."""
    if not resource_type.endswith((":Role", ":ClusterRole")):
        return
    for rule in cast("list[Props]", props.get("rules") or []):
        for field in ("apiGroups", "resources", "verbs"):
            if "*" in (rule.get(field) or []):
                yield f"role {_name(props)}: {field} is '*'; name each one that is needed"


def secrets_by_name(resource_type: str, props: Props) -> Iterator[str]:
    """Whoever reads secrets reads named ones."""
    if not resource_type.endswith((":Role", ":ClusterRole")):
        return
    for rule in cast("list[Props]", props.get("rules") or []):
        if "secrets" in (rule.get("resources") or []) and not rule.get("resourceNames"):
            yield f"role {_name(props)}: may use every secret; give resourceNames"


def pool_has_a_spare(resource_type: str, props: Props) -> Iterator[str]:
    """A pool that takes work has something to heal with."""
    spec = _spec(props)
    if resource_type.endswith(":GpuPool") and spec.get("size", 0) > 0 and spec.get("spares", 0) < 1:
        yield f"pool {_name(props)}: has no spare, so a bad node can't be replaced; set spares to 1 or more"


def grace_is_kept(resource_type: str, props: Props) -> Iterator[str]:
    """No job waits longer for its end than the platform promises, and no worker goes before its jobs."""
    spec = _spec(props)
    if resource_type.endswith(":GpuPool") and spec.get("graceSeconds", 0) > MAX_GRACE_SECONDS:
        yield f"pool {_name(props)}: graceSeconds is {spec['graceSeconds']:g}; at most {MAX_GRACE_SECONDS} are promised"


def no_veto_on_workers(resource_type: str, props: Props) -> Iterator[str]:
    """A pool's own workers don't veto its healing."""
    if not resource_type.endswith(":NodeSet"):
        return
    metadata = _spec(props).get("template", {}).get("metadata", {})
    if LABEL_VETO in (metadata.get("labels") or {}):
        yield f"NodeSet {_name(props)}: its pods carry {LABEL_VETO}, which vetoes every replacement; take it off"


RULES: Final[tuple[Rule, ...]] = (
    no_wildcard_rights,
    secrets_by_name,
    pool_has_a_spare,
    grace_is_kept,
    no_veto_on_workers,
)


def _spec(props: Props) -> dict[str, Any]:
    return cast("dict[str, Any]", props.get("spec") or {})


def _name(props: Props) -> str:
    return str(cast("dict[str, Any]", props.get("metadata") or {}).get("name", "unnamed"))
