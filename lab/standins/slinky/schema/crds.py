"""Custom resource definitions out of the table of fields: ``python -m lab.standins.slinky.schema.crds`` writes them.

The table (``fields.tsv``) has one field a line: kind, path, type, "required", constraints. "open" stands for a
Kubernetes core type whose own fields are not checked here; elsewhere an unknown field is an error for a strict client.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from lab.standins.slinky import names
from lab.standins.slinky.objects import Obj
from lab.standins.slinky.schema.rules import RULES

FIELDS: Final = Path(__file__).with_name("fields.tsv")
OUT: Final = Path(__file__).parents[1] / "manifests" / "crds"

SHORT_NAMES: Final = {
    "Controller": ["slurmctld"],
    "NodeSet": ["nodesets", "nss", "slurmd"],
    "LoginSet": ["loginsets", "lss", "sackd"],
    "RestApi": ["restapis", "slurmrestd"],
    "Accounting": ["slurmdbd"],
    "Token": ["tokens", "jwt"],
}
_AGE: Final = ("AGE", "date", ".metadata.creationTimestamp", 0)
COLUMNS: Final[dict[str, tuple[tuple[str, str, str, int], ...]]] = {
    "Controller": (_AGE,),
    "NodeSet": (
        ("DESIRED", "integer", ".status.desired", 0),
        ("REPLICAS", "integer", ".status.replicas", 0),
        ("UPDATED", "integer", ".status.updatedReplicas", 0),
        ("READY", "integer", ".status.readyReplicas", 0),
        ("IDLE", "integer", ".status.slurmIdle", 1),
        ("ALLOCATED", "integer", ".status.slurmAllocated", 1),
        ("DOWN", "integer", ".status.slurmDown", 1),
        ("DRAIN", "integer", ".status.slurmDrain", 1),
        _AGE,
    ),
    "LoginSet": (("REPLICAS", "integer", ".status.replicas", 0), _AGE),
    "RestApi": (_AGE,),
    "Accounting": (_AGE,),
    "Token": (("USER", "string", ".spec.username", 0), ("IAT", "date", ".status.issuedAt", 0), _AGE),
}
SCALED: Final = ("NodeSet", "LoginSet")
# Maps from string to string, and maps whose fields are a core type's own.
_STRING_MAPS: Final = ("annotations", "labels", "ordinalToNode")
_CORE_TYPES: Final = ("dataSource", "dataSourceRef", "resources", "selector")
_BOUNDED: Final = {"extraConf": 65536, "name": 253, "key": 253}
_CONDITION: Final[Obj] = {
    "type": "object",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "message": {"type": "string", "maxLength": 32768},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "type": {"type": "string", "maxLength": 316},
    },
}


class Field(NamedTuple):
    """One line of the table."""

    kind: str
    path: str
    type: str
    required: bool
    constraints: str


def read_fields(text: str) -> list[Field]:
    """The table's lines; comments left out. Raises ValueError with the line's number for a malformed one."""
    out: list[Field] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [*line.split("\t"), "", ""]
        if len(cells) < 5 or cells[0] not in names.KINDS:
            raise ValueError(f"fields.tsv line {number}: want kind, path, type, required, constraints, found {line!r}")
        out.append(Field(cells[0], cells[1], cells[2], cells[3] == "required", cells[4]))
    return out


def _leaf(field: Field) -> Obj:
    name = field.path.rsplit(".", 1)[-1]
    node: Obj
    if field.constraints.startswith("open"):
        node = {"x-kubernetes-preserve-unknown-fields": True}
        if field.type == "object":
            node["type"] = "object"
        else:
            node["nullable"] = True
        return node
    if name == "conditions":
        return {
            "type": "array",
            "items": _CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        }
    if field.type == "int-or-string":
        node = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    elif field.type.startswith("array<"):
        node = {"type": "array", "items": {"type": field.type[6:-1]}}
    elif field.type == "object" and name in _STRING_MAPS:
        node = {"type": "object", "additionalProperties": {"type": "string"}}
    elif field.type == "object" and name in _CORE_TYPES:
        node = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    else:
        node = {"type": field.type}
    node.update(_constraints(field))
    if field.type == "string" and name in _BOUNDED:
        node["maxLength"] = _BOUNDED[name]
    return node


def _constraints(field: Field) -> Obj:
    out: Obj = {}
    if not field.constraints:
        return out
    pattern = field.constraints.partition("pattern=")[2]
    if pattern:
        out["pattern"] = pattern
    for item in field.constraints.partition("pattern=")[0].split():
        key, _, value = item.partition("=")
        if key == "enum":
            out["enum"] = value.split("|")
        elif key == "minimum":
            out["minimum"] = int(value)
        elif key == "format":
            out["format"] = value
        elif key == "default":
            out["default"] = _default(field.type, value)
    return out


def _default(kind: str, text: str) -> Any:
    if kind == "boolean":
        return text == "True"
    if kind == "integer":
        return int(text)
    return text


def schema(kind: str, fields: list[Field]) -> Obj:
    """The structural schema of one kind, with its validation rules."""
    root: Obj = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {}},
            "status": {"type": "object", "properties": {}},
        },
    }
    for field in fields:
        if field.kind != kind:
            continue
        *folders, name = field.path.split(".")
        at = _walk(root, folders)
        at.setdefault("properties", {})[name] = _leaf(field)
        # A default is set before "required" is checked, so a required field with one may be left out.
        if field.required:
            at.setdefault("required", []).append(name)
    for rule in RULES.get(kind, ()):
        at = _walk(root, rule.path.split("."))
        at.setdefault("x-kubernetes-validations", []).append({"rule": rule.rule, "message": rule.message})
    return root


def _walk(root: Obj, folders: list[str]) -> Obj:
    at = root
    for folder in folders:
        name = folder.removesuffix("[]")
        at = at.setdefault("properties", {}).setdefault(name, {"type": "object"})
        if folder.endswith("[]"):
            at = at["items"]
    return at


def crd(kind: str, fields: list[Field]) -> Obj:
    """The custom resource definition of one kind."""
    plural = names.KINDS[kind]
    version: Obj = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [
            {"name": name, "type": of, "jsonPath": path, **({"priority": priority} if priority else {})}
            for name, of, path, priority in COLUMNS[kind]
        ],
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema(kind, fields)},
    }
    if kind in SCALED:
        version["subresources"]["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [name for name in SHORT_NAMES[kind] if name != plural],
            },
            "versions": [version],
        },
    }


def render(kind: str) -> str:
    """The YAML text of one kind's definition."""
    fields = read_fields(FIELDS.read_text(encoding="utf-8"))
    # Through JSON, so that parts used twice are written twice instead of as YAML anchors.
    body = json.loads(json.dumps(crd(kind, fields)))
    head = "# Written by python -m lab.standins.slinky.schema.crds from schema/fields.tsv; don't edit.\n"
    return head + yaml.safe_dump(body, sort_keys=False, width=120)  # pyright: ignore[reportUnknownMemberType]


def main() -> None:
    """Write every definition to ``manifests/crds``."""
    OUT.mkdir(parents=True, exist_ok=True)
    for kind, plural in names.KINDS.items():
        (OUT / f"{plural}.yaml").write_text(render(kind), encoding="utf-8")


if __name__ == "__main__":
    main()
