"""Fault codes and patterns of them (``XID 63``, ``XID *``): which matches, and which is the closer match. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

WILDCARD = "*"
_CODE = re.compile(r"(S?XID) (0|[1-9][0-9]{0,8}|\*)")


def is_code_or_pattern(text: str, words: Iterable[str]) -> bool:
    """``XID 63``, ``SXID *``, one of ``words``, or the beginning of one of them up to an underscore, then ``*``."""
    if _CODE.fullmatch(text):
        return True
    known = tuple(words)
    if text in known:
        return True
    head = text.removesuffix(WILDCARD)
    return text.endswith("_*") and any(word.startswith(head) for word in known)


def matches(pattern: str, code: str) -> bool:
    """A pattern matches itself too, so that a wider pattern covers a narrower one."""
    if pattern.endswith(WILDCARD):
        return code.startswith(pattern.removesuffix(WILDCARD))
    return pattern == code


def closest_first(patterns: Iterable[str], code: str) -> list[str]:
    """Those that match: the exact code, then patterns, the longer before the shorter."""
    found = [pattern for pattern in patterns if matches(pattern, code)]
    return sorted(found, key=lambda pattern: (pattern.endswith(WILDCARD), -len(pattern)))
