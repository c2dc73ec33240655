"""Secrets that tests plant everywhere and look for everywhere else: as they are, in hex, and inside any base64."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

CANARY: Final = "CANARY"
"""Every secret that a test makes up holds this word, so one search finds them all."""


def leaks(places: Mapping[str, str | bytes], more: Iterable[str] = ()) -> list[str]:
    """``PLACE shows SECRET as FORM`` for each that is shown. ``more``: secrets that could not be made up."""
    wanted = {form: (secret, how) for secret in (CANARY, *more) for form, how in _forms(secret).items()}
    found: list[str] = []
    for place, content in places.items():
        data = content.encode() if isinstance(content, str) else content
        shown = {(secret[:12], how) for form, (secret, how) in wanted.items() if form in data}
        found += [f"{place} shows {secret} as {how}" for secret, how in sorted(shown)]
    return found


def files_under(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path from there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _forms(secret: str) -> dict[bytes, str]:
    data = secret.encode()
    forms = {data: "it is", data.hex().encode(): "hex", data.hex().upper().encode(): "hex"}
    for before in range(3):
        once = _inside_base64(data, before)
        forms[once] = forms[once.translate(bytes.maketrans(b"+/", b"-_"))] = "base64"
    return forms


def _inside_base64(data: bytes, before: int) -> bytes:
    """The letters that only ``data`` decides, where ``before`` bytes stand before it in its group of three."""
    encoded = base64.b64encode(b"\0" * before + data)
    first = -(-8 * before // 6)
    last = 8 * (before + len(data)) // 6
    return encoded[first:last]
