"""What the rest of the product asks of Kubernetes. ``client.py`` does it for real; tests do it in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """A kind's place in the API: ``group`` is empty for core. Each stands once in the code, and is equal to itself."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True


NODE = Resource("", "v1", "nodes", "Node", namespaced=False)
POD = Resource("", "v1", "pods", "Pod")
NAMESPACE_KIND = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
EVENT = Resource("events.k8s.io", "v1", "events", "Event")
SECRET = Resource("", "v1", "secrets", "Secret")
CONFIG_MAP = Resource("", "v1", "configmaps", "ConfigMap")
LEASE = Resource("coordination.k8s.io", "v1", "leases", "Lease")
PDB = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
NODE_SET = Resource("slinky.slurm.net", "v1beta1", "nodesets", "NodeSet")
NODE_HEALTH = Resource("sparewheel.dev", "v1alpha1", "nodehealths", "NodeHealth", namespaced=False)
GPU_POOL = Resource("sparewheel.dev", "v1alpha1", "gpupools", "GpuPool")
GPU_HOST = Resource("sparewheel.dev", "v1alpha1", "gpuhosts", "GpuHost")
REMEDIATION = Resource("sparewheel.dev", "v1alpha1", "remediations", "Remediation")
REMEDIATION_POLICY = Resource("sparewheel.dev", "v1alpha1", "remediationpolicies", "RemediationPolicy")


class KubeError(Exception):
    """The API server refused or could not be asked; the message names verb, kind, object and answer."""


class NotFoundError(KubeError):
    """404 from an answering API server: the only proof that an object is gone."""


class ConflictError(KubeError):
    """409: somebody wrote in between, or the object exists already, or a precondition did not hold."""


class TooManyRequestsError(KubeError):
    """429: the server is busy, or a PodDisruptionBudget blocks an eviction."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class InvalidError(KubeError):
    """400, 403 or 422: asking again will not help."""


class UnavailableError(KubeError):
    """No answer, a time-out or a 5xx: nothing is known about the object, nor whether a write took effect."""


class GoneError(KubeError):
    """410: the watch's resourceVersion is too old; list again."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Json


def opened(version: str) -> WatchEvent:
    """Every watch begins with it: the server has taken it up, however long nothing changes."""
    return WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": version}})


@dataclass(frozen=True, slots=True)
class Listing:
    items: list[Json]
    resource_version: str


Key = tuple[str, str]
"""Namespace ("" for cluster-scoped) and name."""

Keep = Callable[[Json], Json]
"""Cuts an object down to the fields that are used."""


class Kube(Protocol):
    """Asynchronous access to objects as plain JSON. Every method may raise any KubeError."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json: ...

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        label_selector: Mapping[str, str] | None = None,
        field_selector: str | None = None,
        keep: Keep | None = None,
    ) -> Listing:
        """All pages, each cut down by ``keep`` before the next is read."""
        ...

    def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        label_selector: Mapping[str, str] | None = None,
        keep: Keep | None = None,
    ) -> AsyncIterator[Listing]:
        """The same page by page, at least one, all of one moment. GoneError where that is too long ago by now."""
        ...

    def watch(
        self,
        resource: Resource,
        resource_version: str,
        namespace: str | None = None,
        label_selector: Mapping[str, str] | None = None,
    ) -> AsyncIterator[WatchEvent]:
        """``opened``, then events from ``resource_version`` on, bookmarks too; ends when the server ends it.

        GoneError to relist. An object that no longer fits the selector is DELETED.
        """
        ...

    async def create(self, resource: Resource, body: Json, namespace: str | None = None) -> Json: ...

    async def replace(
        self, resource: Resource, body: Json, namespace: str | None = None, subresource: str | None = None
    ) -> Json:
        """PUT; compare-and-swap when ``metadata.resourceVersion`` is set."""
        ...

    async def merge_patch(
        self, resource: Resource, name: str, patch: Json, namespace: str | None = None, subresource: str | None = None
    ) -> Json:
        """JSON merge patch; put ``metadata.uid`` or ``resourceVersion`` into it as a precondition."""
        ...

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        uid: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete; ``uid`` is a precondition (ConflictError when another object has the name now)."""
        ...

    async def evict(self, pod: str, namespace: str, uid: str | None = None) -> None:
        """Eviction API; TooManyRequestsError while a budget blocks it."""
        ...
