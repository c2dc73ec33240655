"""Slurm's short form of node lists: ``gpu-[0-2,7],login`` and back to names."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Final

_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?\Z")


def expand(text: str) -> tuple[str, ...]:
    """Names in ``text``, in order; leading zeros are kept. ValueError says what can't be read."""
    return tuple(sys.intern(name) for part in _split(text) for name in _names(part))


def _split(text: str) -> Iterator[str]:
    """Cut at commas outside brackets."""
    depth, start = 0, 0
    for index, letter in enumerate(text):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if depth not in {0, 1}:
            raise ValueError(f"node list {text!r} has brackets that don't match")
        if letter == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    if depth:
        raise ValueError(f"node list {text!r} has brackets that don't match")
    if text[start:]:
        yield text[start:]


def _names(part: str) -> Iterator[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        yield part
        return
    inside, _, tail = rest.partition("]")
    for item in inside.split(","):
        match = _RANGE.match(item)
        if match is None:
            raise ValueError(f"node list part {part!r} has {item!r} where a number or a range is due")
        first, last = match[1], match[2] or match[1]
        for number in range(int(first), int(last) + 1):
            for end in _names(tail) if tail else ("",):
                yield f"{head}{number:0{len(first)}d}{end}"
