"""Amounts as Kubernetes writes them: they parse, they have a unit where one is meant, and a machine could have them."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator

_SUFFIXES: Final = ("", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi")
FEWEST_BYTES: Final = 2**20
MOST_BYTES: Final = 2**60
MOST_CPUS: Final = 100_000


def _as_text(value: object) -> object:
    """``cpus: 8`` without quotes is a number in YAML."""
    return str(value) if type(value) is int else value


def _cpus(text: str) -> str:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]{1,3})?)(m?)", text, re.ASCII)
    if not found:
        msg = f"{text[:40]!r} is no number of CPUs; write it as 8 or 500m"
        raise ValueError(msg)
    count = float(found[1]) / (1000 if found[2] else 1)
    if not 0 < count <= MOST_CPUS:
        msg = f"{text[:40]!r} is not between 1m and {MOST_CPUS} CPUs"
        raise ValueError(msg)
    return text


def _bytes(text: str) -> str:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)", text, re.ASCII)
    if not found or found[2] not in _SUFFIXES:
        msg = f"{text[:40]!r} is no amount of bytes; write it as 64Gi, with one of {', '.join(_SUFFIXES[1:])}"
        raise ValueError(msg)
    if not FEWEST_BYTES <= float(found[1]) * _unit(found[2]) <= MOST_BYTES:
        msg = f"{text[:40]!r} is not between 1Mi and 1024Pi; without a unit it is bytes, so write it as 64Gi"
        raise ValueError(msg)
    return text


def _unit(suffix: str) -> int:
    base = 1024 if suffix.endswith("i") else 1000
    return int(base ** ("kMGTP".index(suffix[0].replace("K", "k")) + 1)) if suffix else 1


Cpus = Annotated[str, BeforeValidator(_as_text), AfterValidator(_cpus)]
Bytes = Annotated[str, BeforeValidator(_as_text), AfterValidator(_bytes)]
