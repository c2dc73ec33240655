"""Kubernetes quantities: "500m", "2", "1Gi", "2G"."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

_FORM: Final = re.compile(r"^([+-]?[0-9.]+)([eE][+-]?[0-9]+|[a-zA-Z]*)$")
_SUFFIXES: Final = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
    "Pi": Decimal(2) ** 50,
}


def whole(text: str | float | None) -> int:
    """The quantity rounded up to a whole number, as Go's ``Quantity.Value``; 0 for none.

    Raises ValueError for what is no quantity.
    """
    if text is None:
        return 0
    found = _FORM.match(str(text))
    if found is None:
        raise ValueError(f"{text!r} is not a Kubernetes quantity; write a number with a suffix such as m, Mi or Gi")
    number, suffix = found.groups()
    if suffix[:1] in {"e", "E"} and len(suffix) > 1:
        return math.ceil(Decimal(number + suffix))
    if suffix not in _SUFFIXES:
        raise ValueError(f"{text!r} has the unknown suffix {suffix!r}; use one of m, k, M, G, T, Ki, Mi, Gi, Ti")
    return math.ceil(Decimal(number) * _SUFFIXES[suffix])
