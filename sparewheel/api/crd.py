"""CustomResourceDefinitions of our kinds, generated from the models; ``python -m sparewheel.api.crd`` prints them."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from sparewheel.api.base import ApiObject
from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import GROUP, VERSION
from sparewheel.api.node_health import NodeHealth
from sparewheel.api.remediation import Remediation
from sparewheel.api.remediation_policy import RemediationPolicy
from sparewheel.api.schema import structural_schema

KINDS: Final[tuple[type[ApiObject], ...]] = (NodeHealth, GpuPool, GpuHost, Remediation, RemediationPolicy)

SPEC_RULES: Final[dict[str, list[dict[str, str]]]] = {
    "Remediation": [
        {"rule": "self == oldSelf", "message": "a Remediation's spec says what happened; it does not change"}
    ],
    "GpuHost": [
        {
            "rule": "self.pool == oldSelf.pool && self.host == oldSelf.host",
            "message": "pool and host name this machine; delete the GpuHost and let capacity list it again",
        }
    ],
}
"""CEL rules on ``spec``, by kind."""

OBJECT_RULES: Final[dict[str, list[dict[str, str]]]] = {
    "GpuPool": [
        {
            "rule": "self.metadata.name.size() <= 40",
            "message": "a pool's name has at most 40 characters: it becomes a label value and part of other names",
        }
    ],
}
"""CEL rules on the whole object, by kind."""


def crd_name(model: type[ApiObject]) -> str:
    return f"{model.PLURAL}.{GROUP}"


def crd_manifest(model: type[ApiObject]) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind."""
    schema = structural_schema(model)
    spec = schema["properties"]["spec"]
    if model.KIND in SPEC_RULES:
        spec["x-kubernetes-validations"] = SPEC_RULES[model.KIND]
    required = [name for name in schema.get("required", []) if name == "spec"]
    top: dict[str, Any] = {
        "type": "object",
        "description": " ".join((sys.modules[model.__module__].__doc__ or model.KIND).split()),
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": schema["properties"]["status"],
        },
    }
    if required:
        top["required"] = required
    if model.KIND in OBJECT_RULES:
        top["x-kubernetes-validations"] = OBJECT_RULES[model.KIND]
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": top},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": title, "type": kind, "jsonPath": path} for title, kind, path in model.COLUMNS
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": crd_name(model), "labels": {"app.kubernetes.io/part-of": "sparewheel"}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if model.NAMESPACED else "Cluster",
            "names": {
                "kind": model.KIND,
                "listKind": f"{model.KIND}List",
                "plural": model.PLURAL,
                "singular": model.KIND.lower(),
                "shortNames": list(model.SHORT_NAMES),
                "categories": ["sparewheel"],
            },
            "versions": [version],
        },
    }


def crd_manifests() -> list[dict[str, Any]]:
    """All our CRDs, in a stable order."""
    return [crd_manifest(model) for model in KINDS]


def main() -> None:
    """Print the CRDs as one JSON List, ready for ``kubectl apply -f -``."""
    json.dump({"apiVersion": "v1", "kind": "List", "items": crd_manifests()}, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
