"""Is a line a public SSH key? The body is read too: a key cut short would be found only when somebody can't log in."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Final

EXAMPLE: Final = "'ssh-ed25519 AAAA... name'"
FIELDS: Final = {
    "ssh-ed25519": ("key",),
    "ssh-rsa": ("exponent", "modulus"),
    "ecdsa-sha2-nistp256": ("curve", "key"),
    "ecdsa-sha2-nistp384": ("curve", "key"),
    "ecdsa-sha2-nistp521": ("curve", "key"),
    "sk-ssh-ed25519@openssh.com": ("key", "application"),
    "sk-ecdsa-sha2-nistp256@openssh.com": ("curve", "key", "application"),
}
"""What stands in a key's body behind its type (RFC 4253 6.6, RFC 5656 3.1, RFC 8709 4, OpenSSH PROTOCOL.u2f)."""

KEY_BYTES: Final = {
    "ssh-ed25519": 32,
    "sk-ssh-ed25519@openssh.com": 32,
    "nistp256": 65,
    "nistp384": 97,
    "nistp521": 133,
}
"""Length of ``key`` by type or curve; a point is uncompressed."""

MIN_RSA_BITS: Final = 3072
"""As strong as 128 bits (NIST SP 800-57); a policy asks for it, the config does not."""


def why_no_key(line: str) -> str:
    """What is wrong with a line of a public key file, in words that follow the setting's name; empty: it is a key."""
    if "PRIVATE KEY" in line:
        return "is a private key; give the public one, the line in the .pub file"
    words = line.strip().split(maxsplit=2)
    if len(words) < 2 or "\n" in line.strip():
        return f"{_shown(line)} isn't a public SSH key such as {EXAMPLE}"
    kind, body = words[0], words[1]
    if kind not in FIELDS:
        return f"{_shown(line)} isn't a public SSH key such as {EXAMPLE}; its type is one of {', '.join(FIELDS)}"
    try:
        inside, *values = _strings(base64.b64decode(body, validate=True))
    except (binascii.Error, ValueError):
        return f"{_shown(line)} is cut short or mistyped; copy the whole line of the .pub file"
    if inside != kind.encode():
        return f"{_shown(line)} says {kind}, but its body is of another type; copy the whole line of the .pub file"
    if not _whole(kind, dict(zip(FIELDS[kind], values, strict=False)), len(values)):
        return f"{_shown(line)} is cut short or mistyped; copy the whole line of the .pub file"
    return ""


def rsa_bits(line: str) -> int | None:
    """Length of an RSA key's modulus; None for what is no RSA key."""
    if why_no_key(line) or not line.strip().startswith("ssh-rsa"):
        return None
    _, _, modulus = _strings(base64.b64decode(line.split()[1]))
    return int.from_bytes(modulus, "big").bit_length()


def _strings(body: bytes) -> Iterator[bytes]:
    """The length-prefixed strings of a key's body; ValueError when it ends before one of them does."""
    while body:
        length = int.from_bytes(body[:4], "big")
        if len(body) < 4 + length:
            msg = "ends early"
            raise ValueError(msg)
        yield body[4 : 4 + length]
        body = body[4 + length :]


def _whole(kind: str, fields: dict[str, bytes], count: int) -> bool:
    if count != len(FIELDS[kind]) or not all(fields.values()):
        return False
    curve = fields.get("curve", b"").decode("ascii", "replace")
    if curve and not kind.partition("@")[0].endswith(curve):
        return False
    length = KEY_BYTES.get(curve or kind)
    return length is None or len(fields["key"]) == length


def _shown(line: str) -> str:
    """The head of a line, which is never secret in a public key; what isn't one may be."""
    text = " ".join(line.split())
    return repr(text) if len(text) <= 24 else f"{text[:24]!r}..."
