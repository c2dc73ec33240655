"""The Lease object: who holds it, as far as it says, and what it says when we hold it. Wall times are for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

from sparewheel.api.names import GROUP
from sparewheel.kube.port import LEASE, Json, Kube, NotFoundError

ANNOTATION_CODE_VERSION: Final = f"{GROUP}/code-version"
"""On a Lease: version of the code that holds it; another version doesn't drive in its place but asks and waits."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a Lease, as far as it says."""

    identity: str = ""
    version: str = ""
    renewed: str = ""
    duration_seconds: float = 0.0


async def holder_of(kube: Kube, name: str, namespace: str) -> Holder | None:
    """Who holds the Lease; None when nobody does. Says nothing about whether the holder still lives."""
    try:
        holder = holder_in(await kube.get(LEASE, name, namespace))
    except NotFoundError:
        return None
    return holder if holder.identity else None


def holder_in(body: Json) -> Holder:
    spec = cast("Json", body.get("spec") or {})
    annotations = cast("Json", body.get("metadata", {}).get("annotations") or {})
    return Holder(
        identity=str(spec.get("holderIdentity") or ""),
        version=str(annotations.get(ANNOTATION_CODE_VERSION, "")),
        renewed=str(spec.get("renewTime", "")),
        duration_seconds=float(spec.get("leaseDurationSeconds") or 0),
    )


def claimed(body: Json, name: str, claim: Holder) -> Json:
    """The Lease as it is when ``claim`` has it, renewed at the time that it says."""
    spec = cast("Json", body.get("spec") or {})
    metadata = cast("Json", body.get("metadata") or {"name": name})
    ours = spec.get("holderIdentity") == claim.identity
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            **metadata,
            "annotations": {**(metadata.get("annotations") or {}), ANNOTATION_CODE_VERSION: claim.version},
        },
        "spec": {
            **spec,
            "holderIdentity": claim.identity,
            "leaseDurationSeconds": int(claim.duration_seconds),
            "acquireTime": spec.get("acquireTime") if ours else claim.renewed,
            "renewTime": claim.renewed,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (0 if ours or not spec else 1),
        },
    }
