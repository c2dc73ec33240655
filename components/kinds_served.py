"""Says which version of our kinds the cluster serves, and in a preview that changes them: that it is not known yet.

Pulumi's Kubernetes provider previews a custom resource by a dry run, which the API server judges by the kinds that it
serves now: a field that the same update adds is an error there. An input that is not known yet spares it the dry run.

The provider class lives here, alone and free of side effects: the state refers to it by this import path.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from sparewheel.api.crd import crd_manifests


class KindsServedProvider(ResourceProvider):
    """Nothing but a marker behind the kinds: no I/O."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        return CreateResult(id_="kinds", outs=_outs(props))

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        return DiffResult(changes=_olds.get("digest") != _news["digest"], replaces=[])

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        return UpdateResult(outs=_outs(_news))


def _outs(props: dict[str, Any]) -> dict[str, Any]:
    return {"digest": props["digest"], "served": props["digest"]}


def digest() -> str:
    """Changes with any of our kinds."""
    text = json.dumps(crd_manifests(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class KindsServed(Resource, module="sparewheel", name="KindsServed"):
    """Made after ``kinds``; ``served`` goes into each object of them."""

    served: pulumi.Output[str]

    def __init__(self, name: str, kinds: Sequence[pulumi.Resource], parent: pulumi.Resource) -> None:
        super().__init__(
            KindsServedProvider(),
            name,
            {"digest": digest(), "served": None},
            pulumi.ResourceOptions(parent=parent, depends_on=kinds),
        )
