"""Token -> a Secret with a Slurm JWT."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from lab.standins.slinky import slurm_jwt
from lab.standins.slinky.objects import Obj, dig, encoded, meta, name_of
from lab.standins.slinky.pace import TOKEN_DEFAULT_LIFETIME_SECONDS, TOKEN_RENEWAL_SHARE

KIND: Final = "Token"
SECRET_KEY: Final = "SLURM_JWT"
_PART: Final = re.compile(r"([0-9.]+)(h|ms|m|s)")
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def duration_seconds(text: str | None) -> float:
    """A Go duration ("1h30m") in seconds; the default life for none. Raises ValueError for another form."""
    if not text:
        return TOKEN_DEFAULT_LIFETIME_SECONDS
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration; write one such as 1h or 30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def secret_ref(token: Obj) -> Obj:
    """Name and key of the Secret: ``secretRef``, else ``<name>-jwt-<user>`` and ``SLURM_JWT``."""
    given: Obj = dig(token, "spec", "secretRef", default={})
    default_name = f"{name_of(token)}-jwt-{token['spec']['username']}"
    return {"name": given.get("name") or default_name, "key": given.get("key") or SECRET_KEY}


def secret(token: Obj, signing_key: bytes, now: datetime) -> Obj:
    """The Secret with a JWT signed at ``now``; immutable where the token is never renewed."""
    ref = secret_ref(token)
    username: str = token["spec"]["username"]
    text = slurm_jwt.signed(signing_key, username, duration_seconds(dig(token, "spec", "lifetime")), now)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "immutable": not dig(token, "spec", "refresh", default=True),
        "metadata": meta(ref["name"], token, KIND, {}),
        "data": encoded({ref["key"]: text}),
    }


def renew_at(issued: datetime, expires: datetime) -> datetime:
    """When the token must be renewed: at 80 % of its life."""
    return issued + timedelta(seconds=(expires - issued).total_seconds() * TOKEN_RENEWAL_SHARE)
