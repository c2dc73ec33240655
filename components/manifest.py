"""Pieces of Kubernetes objects as Kubernetes writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from sparewheel.api.names import ANNOTATION_KINDS, NAMESPACE


def raw(body: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Any:
    """A piece in camelCase: pods are the same text in our own objects, in Slinky's and in Kubernetes' kinds.

    The SDK's types know snake_case keys only, though it sends either; the API server checks every field strictly.
    """
    return body


def metadata(name: str, namespace: str) -> dict[str, Any]:
    """Of a custom resource. An edit by hand is drift, which `pulumi refresh` shows and the next `up` sets right.

    Without this annotation the API server would refuse to take a field back from whoever edited it.
    """
    return {"name": name, "namespace": namespace, "annotations": {"pulumi.com/patchForce": "true"}}


def own_metadata(name: str, kinds: pulumi.Input[str]) -> dict[str, Any]:
    """Of an object of our kinds; ``kinds``: which version of them is served."""
    whole = metadata(name, NAMESPACE)
    return {**whole, "annotations": {**whole["annotations"], ANNOTATION_KINDS: kinds}}


def unprivileged() -> dict[str, Any]:
    """The securityContext of a container of ours that needs nothing of its node: no root, no capability, no writing."""
    return {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
