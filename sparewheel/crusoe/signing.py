"""Signs requests to Crusoe Cloud: HMAC-SHA256 over path, query, method and time. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode

from sparewheel.crusoe.errors import CrusoeError

VERSION: Final = "1.0"
TIMESTAMP_HEADER: Final = "X-Crusoe-Timestamp"


@dataclass(frozen=True, slots=True)
class Credentials:
    access_key_id: str
    secret_key: str = field(repr=False)
    """Text as the console shows it: base64url, with or without padding."""


def canonical_query(query: str) -> str:
    """The query as both sides sign it: decoded, sorted by key (one key's values keep their order), encoded anew."""
    if ";" in query:
        msg = "a query with a semicolon can't be signed; write it as %3B"
        raise ValueError(msg)
    pairs: list[tuple[str, str]] = parse_qsl(query, keep_blank_values=True)
    return urlencode(sorted(pairs, key=_by_key))


def _by_key(pair: tuple[str, str]) -> bytes:
    return pair[0].encode()


def signature(credentials: Credentials, method: str, path: str, query: str, timestamp: str) -> str:
    """``path`` and ``query`` as they stand in the request line; ``timestamp`` exactly as it is sent."""
    lines = (unquote(path), canonical_query(query), method.upper(), timestamp)
    text = "".join(f"{line}\n" for line in lines)
    digest = hmac.new(_key(credentials), text.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def signed_headers(credentials: Credentials, method: str, path: str, query: str, now: datetime) -> dict[str, str]:
    """Made anew for every try: a signature is good for a short time only."""
    timestamp = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    made = signature(credentials, method, path, query, timestamp)
    return {
        TIMESTAMP_HEADER: timestamp,
        "Authorization": f"Bearer {VERSION}:{credentials.access_key_id}:{made}",
    }


def _key(credentials: Credentials) -> bytes:
    text = credentials.secret_key.strip().rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise CrusoeError(
            f"the secret key of access key {credentials.access_key_id} is no base64url text; "
            "set it again as the console showed it when the key was made"
        ) from None
