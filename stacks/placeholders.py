"""Texts that can't be meant, wherever they stand: ``<what belongs here>`` of an example, and control characters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

PLACEHOLDER: Final = re.compile(r"<(?P<what>[^<>]{3,200})>")
CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]")


def to_fill_in(raw: Mapping[str, object]) -> list[str]:
    """One line for each placeholder that is left: its path, and what belongs there."""
    found = ((path, PLACEHOLDER.fullmatch(text.strip())) for path, text in _texts(raw))
    return [f"{path}: {match['what']}" for path, match in found if match]


def unprintable(raw: Mapping[str, object]) -> list[str]:
    """One line for each text with a control character in it: no file, label or command line takes one."""
    found = ((path, CONTROL.search(text)) for path, text in _texts(raw))
    return [f"{path}: has a control character, {match[0]!r}; type it anew" for path, match in found if match]


def _texts(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in cast("Mapping[str, Any]", value).items():
            yield from _texts(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, Sequence):
        for index, inner in enumerate(cast("Sequence[Any]", value)):
            yield from _texts(inner, f"{path}.{index}")
