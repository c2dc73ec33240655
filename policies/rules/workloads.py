"""Pods and what surrounds them: images, access to hosts, disruption budgets, vetoes, names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from policies.allowed import HOST_ACCESS, is_allowed
from policies.model import Found, Given, Level, Resource, Rule
from policies.values import fields, hidden, leaves, meta, number, of_kind, pod_specs, spec, text
from sparewheel.api.gpu_pool import MAX_POOL_NAME
from sparewheel.api.names import LABEL_VETO
from stacks.base import LABEL_KEY, LABEL_VALUE

_DIGEST: Final = re.compile(r"@sha256:[0-9a-f]{64}$")
_HOST_FLAGS: Final = ("privileged", "hostPID", "hostNetwork", "hostIPC", "allowPrivilegeEscalation")
_CHILDREN_CARRY_THE_NAME: Final = {
    "GpuPool": MAX_POOL_NAME,
    "NodeSet": MAX_POOL_NAME,
    "CronJob": 52,
    "Service": 63,
    "Namespace": 63,
    "StatefulSet": 52,
    "Deployment": 63,
    "DaemonSet": 63,
    "Controller": 40,
    "LoginSet": 40,
}
"""Longest name by kind: Kubernetes' own limit, or what is left when pods, labels and host names are made of it."""
_MAX_ANNOTATIONS: Final = 256 * 1024
_MAX_CONFIG: Final = 1024 * 1024


def images_by_digest(resource: Resource, _given: Given) -> Iterator[str]:
    """An image is pinned by its digest."""
    if resource.kind == "CustomResourceDefinition":
        return
    for path, value in leaves(spec(resource)):
        named = path.rpartition(".")[2] == "image" and isinstance(value, str) and not hidden(value)
        if named and not _DIGEST.search(value):
            yield f"spec.{path} is {value}, which may be another image tomorrow; write NAME@sha256:DIGEST"


def host_access_is_listed(resource: Resource, _given: Given) -> Iterator[str]:
    """Only listed pods are privileged or reach into their host."""
    if resource.kind == "CustomResourceDefinition":
        return
    for what in sorted(set(host_access(spec(resource)))):
        if not is_allowed(HOST_ACCESS, resource.kind, resource.name, what):
            yield f"{resource.label}: has {what}; take it off, or list it with a reason in policies/allowed.py"


def host_access(body: dict[str, Any]) -> Iterator[str]:
    for path, value in leaves(body):
        last = path.rpartition(".")[2]
        if last in _HOST_FLAGS and value is True:
            yield last
        elif path.endswith("hostPath.path"):
            yield f"hostPath {value}"
        elif re.search(r"capabilities\.add\.[0-9]+$", path):
            yield f"capability {value}"


def disruption_budgets_give_way(resources: Sequence[Resource], _given: Given) -> Iterator[Found]:
    """A disruption budget lets at least one pod go, or a drain waits until its deadline every time."""
    for budget in of_kind(resources, "PodDisruptionBudget"):
        body = spec(budget)
        most, least = body.get("maxUnavailable"), body.get("minAvailable")
        name = f"disruption budget {budget.name}"
        if most is not None and _share(most, 100.0) == 0:
            yield budget, f"{name}: maxUnavailable is {most}, so its pods never leave a node; allow 1"
        if least is None:
            continue
        for workload in _selected(budget, resources):
            replicas = number(spec(workload), "replicas")
            replicas = 1.0 if replicas is None else replicas
            if replicas > 0 and _share(least, replicas) >= replicas:
                yield (
                    budget,
                    (
                        f"{name}: minAvailable {least} of {replicas:g} pod(s) of {workload.label} lets none go; "
                        "use maxUnavailable 1, or one more replica"
                    ),
                )
        if isinstance(least, str) and _share(least, 100.0) >= 100 and not _selected(budget, resources):
            yield budget, f"{name}: minAvailable is {least}, so its pods never leave a node; use maxUnavailable 1"


def _share(value: Any, of: float) -> float:
    """A count, or percent of ``of``; what is neither counts as one pod, which blocks nothing by itself."""
    if isinstance(value, str) and value.endswith("%"):
        bare = number(value[:-1])
        return 1.0 if bare is None else bare * of / 100
    found = number(value)
    return 1.0 if found is None else found


def _selected(budget: Resource, resources: Sequence[Resource]) -> list[Resource]:
    wanted = fields(spec(budget), "selector", "matchLabels")
    namespace = text(meta(budget), "namespace")
    found: list[Resource] = []
    for one in of_kind(resources, "Deployment", "StatefulSet", "ReplicaSet"):
        labels = fields(spec(one), "template", "metadata", "labels")
        if wanted and wanted.items() <= labels.items() and text(meta(one), "namespace") == namespace:
            found.append(one)
    return found


def no_veto_on_workers(resource: Resource, _given: Given) -> Iterator[str]:
    """A pool's own workers don't veto its healing."""
    labels = fields(spec(resource), "template", "metadata", "labels")
    if resource.kind == "NodeSet" and LABEL_VETO in labels:
        yield f"NodeSet {resource.name}: its pods carry {LABEL_VETO}, which vetoes every replacement; take it off"


def names_within_limits(resource: Resource, _given: Given) -> Iterator[str]:
    """Names, labels, annotations and ConfigMaps keep to Kubernetes' limits, with room for what is made of them."""
    if not resource.type.startswith("kubernetes:") or not meta(resource):
        return
    longest = _CHILDREN_CARRY_THE_NAME.get(resource.kind, 253)
    if len(resource.name) > longest:
        yield f"{resource.label}: the name has {len(resource.name)} characters; at most {longest} leave room"
    places = [("metadata.labels", fields(meta(resource), "labels"))]
    template = fields(spec(resource), "template", "metadata", "labels")
    places += [("spec.template.metadata.labels", template)]
    places += [(f"{path}.nodeSelector", fields(pod, "nodeSelector")) for path, pod in pod_specs(resource)]
    for where, labels in places:
        for key, value in labels.items():
            if not re.fullmatch(LABEL_KEY, str(key)):
                yield f"{resource.label}: {where} has the key {key!r}, which is no label's"
            elif not hidden(value) and not re.fullmatch(LABEL_VALUE, str(value)):
                yield f"{resource.label}: {where} {key} is {str(value)[:80]!r}; 63 letters, digits, '-', '_', '.'"
    annotations = sum(len(str(key)) + len(str(value)) for key, value in fields(meta(resource), "annotations").items())
    if annotations > _MAX_ANNOTATIONS:
        yield f"{resource.label}: its annotations have {annotations} bytes; at most {_MAX_ANNOTATIONS}"
    if resource.kind in ("ConfigMap", "Secret"):
        size = len(json.dumps(fields(resource.inputs, "data")))
        if size > _MAX_CONFIG:
            yield f"{resource.label}: has {size} bytes; at most {_MAX_CONFIG}"


RULES: Final = (
    Rule(
        "images-by-digest",
        Level.MANDATORY,
        "Kubernetes: images, use of digests",
        check=images_by_digest,
        production_only=True,
    ),
    Rule(
        "host-access-is-listed",
        Level.MANDATORY,
        "Kubernetes: Pod Security Standards, baseline",
        check=host_access_is_listed,
    ),
    Rule(
        "disruption-budgets-give-way",
        Level.MANDATORY,
        "Kubernetes: disruptions",
        whole=disruption_budgets_give_way,
    ),
    Rule("no-veto-on-workers", Level.MANDATORY, "docs/architecture.md, the veto", check=no_veto_on_workers),
    Rule(
        "names-within-limits",
        Level.MANDATORY,
        "Kubernetes: object names, labels and selectors",
        check=names_within_limits,
    ),
)
