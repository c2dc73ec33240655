"""JSON Web Tokens as Slurm's auth/jwt takes them: HS256, user name in ``sun``."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import jwt


def signed(key: bytes, username: str, lifetime_seconds: float, now: datetime) -> str:
    """A token for ``username`` that is good from ``now`` for ``lifetime_seconds``."""
    claims = {
        "jti": str(uuid.uuid4()),
        "iss": "slurm-operator",
        "iat": int(now.timestamp()),
        "nbf": int(now.timestamp()),
        "exp": int((now + timedelta(seconds=lifetime_seconds)).timestamp()),
        "sun": username,
    }
    return jwt.encode(claims, key, algorithm="HS256")


def life(text: str, key: bytes) -> tuple[datetime, datetime] | None:
    """When the token was issued and when it ends; None if ``key`` didn't sign it or it is no token."""
    try:
        claims = jwt.decode(
            text,
            key,
            algorithms=["HS256"],
            options={"verify_exp": False, "verify_nbf": False, "verify_iat": False, "require": ["iat", "exp"]},
        )
    except jwt.InvalidTokenError:
        return None
    return datetime.fromtimestamp(claims["iat"], UTC), datetime.fromtimestamp(claims["exp"], UTC)
