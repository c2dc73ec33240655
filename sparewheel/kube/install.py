"""Put CRDs and other manifests of ours on an API server, and wait until kinds are served."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, cast

from sparewheel.kube.port import ConflictError, Json, Kube, KubeError, NotFoundError, Resource

CRD: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
ADMISSION_POLICY: Final = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
ADMISSION_BINDING: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)


async def apply(kube: Kube, resource: Resource, manifest: Json, namespace: str | None = None) -> Json:
    """Create the object, or bring an existing one to the manifest by merge patch."""
    try:
        return await kube.create(resource, manifest, namespace)
    except ConflictError:
        return await kube.merge_patch(resource, str(manifest["metadata"]["name"]), manifest, namespace)


async def apply_crds(kube: Kube, manifests: Sequence[Json], deadline_seconds: float = 30.0) -> None:
    """Apply CRDs and return when every one is Established and its kind can be listed."""
    for manifest in manifests:
        await apply(kube, CRD, manifest)
    waiting = {str(manifest["metadata"]["name"]): manifest for manifest in manifests}
    try:
        async with asyncio.timeout(deadline_seconds):
            while waiting:
                for name, manifest in list(waiting.items()):
                    if await _served(kube, name, manifest):
                        del waiting[name]
                if waiting:
                    await asyncio.sleep(0.1)
    except TimeoutError as error:
        raise KubeError(
            f"CRDs not established after {deadline_seconds:g} s: {', '.join(waiting)}; look at their conditions"
        ) from error


async def _served(kube: Kube, name: str, manifest: Json) -> bool:
    crd = await kube.get(CRD, name)
    conditions = cast("list[dict[str, Any]]", crd.get("status", {}).get("conditions", []))
    if not any(item["type"] == "Established" and item["status"] == "True" for item in conditions):
        return False
    spec = manifest["spec"]
    kind = Resource(
        spec["group"],
        spec["versions"][0]["name"],
        spec["names"]["plural"],
        spec["names"]["kind"],
        namespaced=spec["scope"] == "Namespaced",
    )
    try:
        await kube.list(kind)
    except NotFoundError:
        return False
    except KubeError:
        return False
    return True
