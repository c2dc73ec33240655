"""Signature of a webhook: HMAC-SHA256 over the time and the body, so that a receiver knows who sent it, and when.

``Sparewheel-Timestamp``  seconds since 1970
``Sparewheel-Signature``  ``v1=`` and the hexadecimal HMAC-SHA256 of ``TIMESTAMP.BODY`` under the shared key
"""

from __future__ import annotations

import hashlib
import hmac

TIMESTAMP_HEADER = "Sparewheel-Timestamp"
SIGNATURE_HEADER = "Sparewheel-Signature"
TOLERANCE_SECONDS = 300
"""An older message is a replay."""


def signature(key: str, timestamp: str, body: bytes) -> str:
    digest = hmac.new(key.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
    return f"v1={digest.hexdigest()}"


def headers(key: str, timestamp_seconds: float, body: bytes) -> dict[str, str]:
    timestamp = str(int(timestamp_seconds))
    return {TIMESTAMP_HEADER: timestamp, SIGNATURE_HEADER: signature(key, timestamp, body)}


def verify(key: str, timestamp: str, given: str, body: bytes, now_seconds: float) -> bool:
    """What a receiver does, on the raw body. The comparison takes as long for a wrong signature as for a right one."""
    if not (timestamp.isascii() and timestamp.isdigit()) or abs(now_seconds - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    return hmac.compare_digest(signature(key, timestamp, body).encode(), given.encode())
