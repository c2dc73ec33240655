"""Reads what is judged: exported states, previews, YAML manifests, stacks' files, records, measured spares."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import yaml

from policies.model import CONFIG_TYPE, SECRET, STACK_TYPE, UNKNOWN, Resource
from policies.values import fields, is_record, items, number, text

_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
"""Key that the engine marks its own kinds of values with."""
_SECRET_SIGNATURE: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - the engine's mark, no secret
_UNKNOWN_VALUES: Final = frozenset(
    (
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    )
)
"""What the engine writes for a value that isn't known yet, by its type."""
_GONE: Final = frozenset(("delete", "delete-replaced", "discard", "discard-replaced", "remove-pending-replace"))


class ReadError(Exception):
    """A file isn't what can be judged; the message names it, says why, and what would be right."""


@dataclass(frozen=True)
class Document:
    """One file. ``whole``: it holds a whole stack. ``environment``: the stack that it names; empty: none."""

    resources: tuple[Resource, ...] = ()
    environment: str = ""
    whole: bool = False
    spares_needed: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def records(self) -> bool:
        return any(is_record(one) for one in self.resources)


def read_file(path: Path) -> Document:
    """ReadError where the file can't be read or is of no known kind."""
    try:
        content = path.read_text("utf-8")
    except OSError as error:
        raise ReadError(f"{path}: can't be read ({error.strerror}); name a file that is there") from None
    except UnicodeDecodeError as error:
        raise ReadError(f"{path}: is no text: {error}") from None
    try:
        return read(content, path.name)
    except ReadError as error:
        raise ReadError(f"{path}: {error}") from None


def read(content: str, name: str = "") -> Document:
    """A file's content. ``name``: its file name, which says whose settings a stack's file holds."""
    documents = _parse(content)
    first = documents[0] if documents else None
    if isinstance(first, Mapping) and "deployment" in first:
        return _state(items(first, "deployment", "resources"))
    if isinstance(first, Mapping) and "checkpoint" in first:
        return _state(items(first, "checkpoint", "latest", "resources"))
    if isinstance(first, Mapping) and ("steps" in first or "changeSummary" in first):
        return _preview(fields(first))
    if isinstance(first, Mapping) and "config" in first and "kind" not in first:
        return _stack_file(fields(first), name)
    if isinstance(first, list):
        return _listed(items(first))
    manifests = [one for document in documents if document is not None for one in _flat(document)]
    if not manifests:
        raise ReadError("is empty, so there is nothing to judge")
    return Document(tuple(map(_manifest, manifests)))


def _parse(content: str) -> list[Any]:
    try:
        return [json.loads(content)]
    except ValueError:
        pass
    try:
        return list(yaml.safe_load_all(content))
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise ReadError(f"is neither JSON nor YAML: {problem[:200]}") from None


def masked(value: Any) -> Any:
    """The value with secrets and what isn't known yet hidden."""
    if isinstance(value, Mapping):
        body = cast("Mapping[str, Any]", value)
        if body.get(_SIGNATURE) == _SECRET_SIGNATURE:
            return SECRET
        if list(body) == ["secure"]:  # as a stack's file has it
            return SECRET
        return {str(key): masked(inner) for key, inner in body.items()}
    if isinstance(value, list | tuple):
        return [masked(inner) for inner in cast("Sequence[Any]", value)]
    return UNKNOWN if isinstance(value, str) and value in _UNKNOWN_VALUES else value


def resource(body: Mapping[str, Any]) -> Resource:
    """A resource as the engine writes it: urn, type, inputs, outputs, protect."""
    urn, kind = text(body, "urn"), text(body, "type")
    inputs = fields(masked(body.get("inputs")))
    own = text(inputs, "metadata", "name")
    outputs = fields(masked(body.get("outputs"))) if kind == STACK_TYPE else {}
    return Resource(kind, own or urn.rpartition("::")[2], inputs, urn, body.get("protect") is True, outputs)


def _state(found: Iterable[Any]) -> Document:
    """Resources that wait for their deletion are on their way out."""
    bodies = [fields(one) for one in found if fields(one).get("delete") is not True]
    return Document(tuple(map(resource, bodies)), _environment(bodies), whole=True)


def _preview(body: Mapping[str, Any]) -> Document:
    steps = [fields(one) for one in items(body, "steps")]
    same = sum(step.get("op") == "same" for step in steps)
    told = int(number(body, "changeSummary", "same") or 0)
    if told > same:
        raise ReadError(
            f"leaves out {told - same} unchanged resource(s), so the stack can't be judged; "
            "make it with 'pulumi preview --json --show-sames'"
        )
    bodies: dict[str, dict[str, Any]] = {}
    for step in steps:
        new = fields(step, "newState")
        if step.get("op") not in _GONE and new:
            bodies[text(new, "urn")] = new
    return Document(tuple(map(resource, bodies.values())), _environment(bodies.values()), whole=True)


def _environment(bodies: Iterable[Mapping[str, Any]]) -> str:
    """``urn:pulumi:STACK::PROJECT::TYPE::NAME``."""
    for body in bodies:
        match = re.match(r"urn:pulumi:([^:]+)::", text(body, "urn"))
        if match:
            return match[1]
    return ""


def _stack_file(body: Mapping[str, Any], name: str) -> Document:
    match = re.fullmatch(r"Pulumi\.(.+)\.ya?ml", name)
    stack = match[1] if match else ""
    return Document((Resource(CONFIG_TYPE, stack or name, fields(masked(body.get("config")))),), stack)


def _listed(found: Sequence[Any]) -> Document:
    """What ``sparewheel spares`` or ``sparewheel remediations`` prints as JSON."""
    bodies = [fields(one) for one in found]
    needs = {text(one, "pool"): number(one, "needed") for one in bodies if "needed" in one}
    if bodies and len(needs) == len(bodies):
        return Document(spares_needed={pool: int(need) for pool, need in needs.items() if need is not None})
    return Document(tuple(map(_manifest, bodies)))


def _flat(document: Any) -> list[Any]:
    """A List's items, or the object itself."""
    body = fields(document)
    return items(body, "items") if text(body, "kind").endswith("List") and "items" in body else [document]


def _manifest(body: Any) -> Resource:
    kind, version = text(body, "kind"), text(body, "apiVersion")
    name = text(body, "metadata", "name")
    if not kind or not version or not name:
        raise ReadError(
            "is no exported state, preview, stack's file or list of Kubernetes objects; an object needs apiVersion, "
            "kind and metadata.name"
        )
    group = version if "/" in version else f"core/{version}"
    return Resource(f"kubernetes:{group}:{kind}", name, fields(masked(body)))
