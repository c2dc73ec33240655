"""Reads what the engine's ``--json`` says: what would change, what stays, what went wrong. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from policies.values import fields, items, leaves, number, text

QUIET: Final = frozenset(("same", "read", "refresh", "read-discard", "discard"))
"""Operations that change nothing."""
NOT_EXPECTED: Final = "no changes were expected"
"""What the engine says at the end of a preview that found changes where none were wanted."""


@dataclass(frozen=True)
class Change:
    """One resource that would change; ``fields`` are names of inputs, never their values."""

    operation: str
    resource: str
    fields: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Each value that differs, where ``fields`` may name only what holds it."""


@dataclass(frozen=True)
class Look:
    """One preview. ``error``: why it could not be made; what it says about changes is worth nothing then."""

    changes: tuple[Change, ...] = ()
    unchanged: int = 0
    error: str = ""
    text: str = ""

    @property
    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for change in self.changes:
            found[change.operation] = found.get(change.operation, 0) + 1
        return found


def read_look(code: int, out: str, err: str) -> Look:
    """One run of the engine."""
    try:
        answer = fields(json.loads(out))
    except ValueError:
        return Look(error=errors_of([err or out]) or f"pulumi ended with exit code {code} and no answer")
    steps = [fields(step) for step in items(answer, "steps")]
    changes = tuple(_change(step) for step in steps if text(step, "op") not in QUIET)
    unchanged = int(number(answer, "changeSummary", "same") or 0)
    if code != 0 and not (changes and NOT_EXPECTED in err):
        said = errors_of([text(fields(one), "message") for one in items(answer, "diagnostics")]) or errors_of([err])
        return Look(changes, unchanged, said or f"pulumi ended with exit code {code}", out)
    if not steps:
        return Look(error="pulumi's answer names no resource at all", text=out)
    return Look(changes, unchanged, text=out)


def errors_of(messages: Iterable[str]) -> str:
    """What stands behind "error:", without the engine's warnings and its last word that repeats them."""
    found: list[str] = []
    for message in messages:
        lines = message.strip().splitlines()
        start = next((number for number, line in enumerate(lines) if line.startswith("error:")), None)
        if start is None:
            continue
        text = "\n".join(lines[start:]).removeprefix("error:").strip()
        if "program exited with non-zero exit code" not in text and text not in found:
            found.append(text)
    return "\n".join(found)


def _change(step: Mapping[str, Any]) -> Change:
    paths = _differing(step)
    reasons = items(step, "diffReasons") or items(step, "replaceReasons") or paths
    return Change(text(step, "op"), short_name(text(step, "urn")), tuple(str(one) for one in reasons), tuple(paths))


def _differing(step: Mapping[str, Any]) -> list[str]:
    """Paths of the inputs that differ; of the outputs, where the inputs are the same. None for what comes or goes."""
    if not fields(step, "oldState") or not fields(step, "newState"):
        return []
    for part in ("inputs", "outputs"):
        old, new = (dict(leaves(fields(step, state, part))) for state in ("oldState", "newState"))
        found = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
        if found:
            return found
    return []


def short_name(urn: str) -> str:
    """``urn:pulumi:STACK::PROJECT::PARENT$TYPE::NAME`` as ``TYPE NAME``."""
    parts = urn.split("::", 3)
    return f"{parts[2].rpartition('$')[2]} {parts[3]}" if len(parts) == 4 else urn
