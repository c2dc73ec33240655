"""Takes secrets out of text that others wrote, before it gets into a log, a record or an error. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from urllib.parse import quote, unquote, urlsplit

HIDDEN = "***"
MIN_SECRET_CHARACTERS = 4
"""Shorter parts of an address are words, not secrets."""
MAX_CHARACTERS = 200


def parts_of_url(url: str) -> set[str]:
    """The parts of an address that may be its credential: all but scheme, host and port."""
    try:
        parsed = urlsplit(url)
        user, password = parsed.username or "", parsed.password or ""
    except ValueError:
        return {url}
    pieces = {url, parsed.path, parsed.path.lstrip("/"), parsed.query, user, password, *parsed.path.split("/")}
    pieces |= {value for pair in re.split("[&;]", parsed.query) for value in [pair.partition("=")[2]]}
    return {piece for piece in pieces if len(piece) >= MIN_SECRET_CHARACTERS}


def _forms(secret: str) -> set[str]:
    """As it may be written by others: as it is, in an address, in an SMTP dialogue."""
    encoded = base64.b64encode(secret.encode()).decode()
    return {secret, quote(secret), quote(secret, safe=""), unquote(secret), encoded, encoded.rstrip("=")}


def redact(text: str, secrets: Iterable[str]) -> str:
    """One line of printable text without any of the secrets, cut to MAX_CHARACTERS."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    forms = {form for secret in secrets for form in _forms(secret) if len(form) >= MIN_SECRET_CHARACTERS}
    for form in sorted(forms, key=len, reverse=True):
        line = line.replace(form, HIDDEN)
    return line if len(line) <= MAX_CHARACTERS else f"{line[: MAX_CHARACTERS - 1]}…"
