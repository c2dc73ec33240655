"""Reads inputs of any shape without trusting it: what isn't of the expected form is empty, never an error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from policies.model import SECRET, UNKNOWN, Props, Resource


def fields(value: Any, *path: str) -> dict[str, Any]:
    """The mapping at a path; empty where there is none."""
    found = at(value, *path)
    return dict(cast("Mapping[str, Any]", found)) if isinstance(found, Mapping) else {}


def items(value: Any, *path: str) -> list[Any]:
    """The list at a path; empty where there is none."""
    found = at(value, *path)
    return list(cast("Sequence[Any]", found)) if isinstance(found, list | tuple) else []


def text(value: Any, *path: str) -> str:
    """The text at a path; empty where there is none, or where it is secret or not known yet."""
    found = at(value, *path)
    return found if isinstance(found, str) and not hidden(found) else ""


def number(value: Any, *path: str) -> float | None:
    """The number at a path; None where there is none."""
    found = at(value, *path)
    if isinstance(found, bool):
        return None
    if isinstance(found, int | float):
        return float(found)
    if isinstance(found, str) and re.fullmatch(r"[0-9]+(\.[0-9]+)?", found):
        return float(found)
    return None


def at(value: Any, *path: str) -> Any:
    for step in path:
        value = cast("Mapping[str, Any]", value).get(step) if isinstance(value, Mapping) else None
    return value


def hidden(value: Any) -> bool:
    """Secret, or not known yet."""
    return value in (SECRET, UNKNOWN)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is no mapping and no list, with its path."""
    if isinstance(value, Mapping):
        for key, inner in cast("Mapping[str, Any]", value).items():
            yield from leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(cast("Sequence[Any]", value)):
            yield from leaves(inner, f"{path}.{index}")
    else:
        yield path, value


def of_kind(resources: Iterable[Resource], *kinds: str) -> list[Resource]:
    return [resource for resource in resources if resource.kind in kinds]


def is_record(resource: Resource) -> bool:
    """A ``Remediation`` of the cluster, not the component of that name, which every stack has."""
    return resource.kind == "Remediation" and resource.type.startswith("kubernetes:")


def spec(resource: Resource) -> dict[str, Any]:
    return fields(resource.inputs, "spec")


def meta(resource: Resource) -> dict[str, Any]:
    return fields(resource.inputs, "metadata")


def pod_specs(resource: Resource) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path, spec) of each pod that the resource makes, also through Slinky's objects."""
    body = spec(resource)
    if resource.kind == "Pod":
        yield "spec", body
    for path in (("template",), ("jobTemplate", "spec", "template")):
        pod = fields(body, *path, "spec")
        if pod:
            yield "spec." + ".".join(path) + ".spec", pod


def containers(pod: Props) -> list[dict[str, Any]]:
    return [fields(one) for key in ("initContainers", "containers", "ephemeralContainers") for one in items(pod, key)]


def conf(text_of_file: str) -> dict[str, str]:
    """``Key=Value`` lines by key in small letters; of two lines the later counts, as in slurm.conf."""
    found: dict[str, str] = {}
    for line in text_of_file.splitlines():
        bare = line.partition("#")[0].strip()
        if bare:
            for key, value in re.findall(r"(\w+)\s*=\s*(\S+)", bare.replace(" =", "=").replace("= ", "=")):
                found[key.lower()] = value
    return found


def listed(value: str) -> dict[str, str]:
    """``a,b=1`` as a mapping."""
    pairs = (item.partition("=") for item in value.split(",") if item)
    return {key.lower(): inner for key, _, inner in pairs}


def slurm_conf(resource: Resource) -> dict[str, str]:
    """slurm.conf as a Controller extends it."""
    return conf(text(resource.inputs, "spec", "extraConf"))
