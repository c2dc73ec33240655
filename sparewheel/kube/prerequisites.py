"""What the platform expects of a cluster that others made: each thing that isn't there, with how to get it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from sparewheel.kube.port import NODE, Json, Kube, NotFoundError, Resource

ADMISSION_POLICY: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
ISSUER: Final = Resource("cert-manager.io", "v1", "issuers", "Issuer")
STORAGE_CLASS: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
OPERATORS: Final = {
    "nvidia.com/gpu": "NVIDIA's GPU operator, or its device plugin",
    "amd.com/gpu": "AMD's GPU operator, or its device plugin",
}
NETWORK_OPERATOR: Final = "the network operator that gives it, with its device plugin"


@dataclass(frozen=True, slots=True)
class NodesWanted:
    """Nodes that are in the cluster already, and what a worker on one of them asks for."""

    pool: str
    selector: Mapping[str, str]
    resources: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Expected:
    storage_classes: Sequence[str] = ()
    cert_manager: bool = False
    nodes: Sequence[NodesWanted] = field(default_factory=tuple[NodesWanted, ...])


async def missing(kube: Kube, expected: Expected) -> list[str]:
    """One sentence for each thing that isn't there. KubeError where it can't be told."""
    found: list[str] = []
    if not await _served(kube, ADMISSION_POLICY):
        found.append("it serves no ValidatingAdmissionPolicy of version v1: use Kubernetes 1.30 or newer")
    if expected.cert_manager and not await _served(kube, ISSUER):
        found.append(
            "cert-manager isn't installed, and the webhook of Slinky's operator needs it: install it, or let the stack "
            "do so with operator.cert_manager: {version: ...}"
        )
    if expected.storage_classes:
        names = sorted(_name(one) for one in (await kube.list(STORAGE_CLASS)).items)
        found += _storage(expected.storage_classes, names)
    for wanted in expected.nodes:
        found += _lacking(wanted, (await kube.list(NODE, label_selector=wanted.selector)).items)
    return found


async def _served(kube: Kube, resource: Resource) -> bool:
    try:
        await kube.list(resource)
    except NotFoundError:
        return False
    return True


def _storage(wanted: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    there = f"there are {', '.join(names)}" if names else "there is none at all; install a storage driver"
    for name in dict.fromkeys(wanted):
        if name not in names:
            yield f"there is no StorageClass {name}: {there}"


def _lacking(wanted: NodesWanted, nodes: Sequence[Json]) -> Iterator[str]:
    """A node or two without are hosts that are ill; where no node has it, whatever gives it isn't installed."""
    labels = ",".join(f"{key}={value}" for key, value in sorted(wanted.selector.items()))
    if not nodes:
        yield f"pool {wanted.pool}: no node has the label {labels}; see 'kubectl get nodes --show-labels'"
        return
    for resource, count in wanted.resources.items():
        most = max(_offered(node, resource) for node in nodes)
        if most < count:
            operator = OPERATORS.get(resource, NETWORK_OPERATOR)
            has = f"no node has more than {most}" if most else f"none of its {len(nodes)} node(s) has any"
            todo = f"install {operator}, or ask for less"
            yield f"pool {wanted.pool}: a worker asks for {count} {resource} and {has}: {todo}"


def _offered(node: Json, resource: str) -> int:
    status = cast("dict[str, Any]", node.get("status") or {})
    allocatable = cast("dict[str, Any]", status.get("allocatable") or {})
    text = str(allocatable.get(resource, "0"))
    return int(text) if text.isdigit() else 0


def _name(body: Json) -> str:
    return str(body["metadata"]["name"])
