"""pydantic JSON schema -> Kubernetes structural schema.

The rules are those of apiextensions.k8s.io/v1 ("Specifying a structural schema"): no ``$ref``, no ``oneOf`` that adds
properties, ``nullable`` in place of a null type, exclusive bounds as booleans. Defaults stay in the models: a default
written by the API server would be seen by Pulumi as a change that nobody made.
"""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel

Schema = dict[str, Any]

_INT32_MAX = 2**31 - 1
_KEPT = (
    "description",
    "enum",
    "format",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "pattern",
)


class SchemaError(Exception):
    """A model says something that a structural schema cannot say; the message names the place."""


def structural_schema(model: type[BaseModel]) -> Schema:
    """The structural schema of one model, as the API server will see its JSON."""
    raw = model.model_json_schema(by_alias=True, mode="validation")
    definitions = cast("dict[str, Schema]", raw.pop("$defs", {}))
    return _convert(raw, definitions, model.__name__)


def _convert(node: Schema, definitions: dict[str, Schema], place: str) -> Schema:
    node = _resolved(node, definitions)
    if "oneOf" in node or "anyOf" in node:
        return _alternatives(node, definitions, place)
    if "const" in node:
        node = {**node, "enum": [node["const"]]}
    kind = node.get("type")
    if not isinstance(kind, str):
        raise SchemaError(f"{place}: no single type in {sorted(node)}; a structural schema needs one")
    out: Schema = {"type": kind} | {key: node[key] for key in _KEPT if key in node}
    if "description" in out:
        out["description"] = " ".join(str(out["description"]).split())
    _bounds(node, out)
    match kind:
        case "integer":
            out["format"] = "int32" if node.get("maximum", _INT32_MAX + 1) <= _INT32_MAX else "int64"
        case "number":
            out["format"] = "double"
        case "array":
            out["items"] = _convert(cast("Schema", node["items"]), definitions, f"{place}[]")
        case "object":
            _object(node, definitions, place, out)
        case _:
            pass
    return out


def _resolved(node: Schema, definitions: dict[str, Schema]) -> Schema:
    """Replace a ``$ref`` by what it names; what stands beside it (a description, say) wins."""
    while "$ref" in node:
        name = str(node["$ref"]).rsplit("/", 1)[-1]
        node = {**definitions[name], **{key: value for key, value in node.items() if key != "$ref"}}
    return node


def _bounds(node: Schema, out: Schema) -> None:
    for exclusive, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in node:
            out[plain], out[exclusive] = node[exclusive], True


def _object(node: Schema, definitions: dict[str, Schema], place: str, out: Schema) -> None:
    values = node.get("additionalProperties")
    properties = cast("dict[str, Schema]", node.get("properties", {}))
    if isinstance(values, dict):
        out["additionalProperties"] = _convert(cast("Schema", values), definitions, f"{place}{{}}")
        return
    if properties:
        out["properties"] = {key: _convert(sub, definitions, f"{place}.{key}") for key, sub in properties.items()}
    if node.get("required"):
        out["required"] = sorted(cast("list[str]", node["required"]))


def _alternatives(node: Schema, definitions: dict[str, Schema], place: str) -> Schema:
    """``X | None`` becomes a nullable X; a union told apart by one field becomes one merged object."""
    branches = cast("list[Schema]", node.get("oneOf") or node.get("anyOf"))
    real = [branch for branch in branches if branch.get("type") != "null"]
    if "discriminator" in node:
        merged = _merged_union(node, [_resolved(branch, definitions) for branch in real], definitions, place)
    elif len(real) == 1:
        merged = _convert(real[0], definitions, place)
    else:
        raise SchemaError(f"{place}: a union needs a discriminator field to become a structural schema")
    if "description" in node:
        merged["description"] = " ".join(str(node["description"]).split())
    if len(real) < len(branches):
        merged["nullable"] = True
    return merged


def _merged_union(node: Schema, branches: list[Schema], definitions: dict[str, Schema], place: str) -> Schema:
    """One object with the fields of every branch; CEL rules say which of them belong to which kind."""
    selector = str(node["discriminator"]["propertyName"])
    converted = {
        str(branch["properties"][selector]["const"]): _convert(branch, definitions, place) for branch in branches
    }
    properties: dict[str, Schema] = {}
    for schema in converted.values():
        for name, sub in schema["properties"].items():
            if name != selector and properties.setdefault(name, sub) != sub:
                raise SchemaError(f"{place}.{name}: means different things in the branches of one union")
    rules: list[Schema] = []
    # An object stored before the field existed is told by ``required``, and only where somebody changes it: a rule
    # that reads a missing field would refuse every write to such an object, of its status too.
    other = f"!has(self.{selector}) || self.{selector} !="
    for kind, schema in converted.items():
        required = [name for name in schema.get("required", []) if name != selector]
        if required:
            present = " && ".join(f"has(self.{name})" for name in required)
            message = f"{selector} {kind} needs {', '.join(required)}"
            rules.append({"rule": f"{other} '{kind}' || ({present})", "message": message})
        foreign = sorted(set(properties) - set(schema["properties"]))
        if foreign:
            present = " || ".join(f"has(self.{name})" for name in foreign)
            message = f"{selector} {kind} has none of {', '.join(foreign)}"
            rules.append({"rule": f"{other} '{kind}' || !({present})", "message": message})
    return {
        "type": "object",
        "properties": {selector: {"type": "string", "enum": list(converted)}, **properties},
        "required": [selector],
        "x-kubernetes-validations": rules,
    }
