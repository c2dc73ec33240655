"""Values that an example leaves to you: ``<what belongs here>``. Until all are filled in, they are the one error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

PLACEHOLDER: Final = re.compile(r"<(?P<what>[^<>]{3,200})>")


def to_fill_in(raw: Mapping[str, object]) -> list[str]:
    """One line for each placeholder that is left: its path, and what belongs there."""
    return [f"{path}: {what}" for path, what in _placeholders(raw)]


def _placeholders(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        found = PLACEHOLDER.fullmatch(value.strip())
        if found:
            yield path, found["what"]
    elif isinstance(value, Mapping):
        for key, inner in cast("Mapping[str, Any]", value).items():
            yield from _placeholders(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, Sequence):
        for index, inner in enumerate(cast("Sequence[Any]", value)):
            yield from _placeholders(inner, f"{path}.{index}")
