"""What a user gave wrong, in one plain sentence: the words of the library that reads the values are for programmers."""

from __future__ import annotations

from typing import Any

import typer
from pydantic import ValidationError
from typer.core import TyperGroup

_KINDS = {"int_parsing": "is no whole number", "float_parsing": "is no number"}
_BOUNDS = {"greater_than_equal": ("ge", "or more"), "less_than_equal": ("le", "at most")}


class PlainGroup(TyperGroup):
    """The root of all commands: what any of them refuses passes here on its way to the user."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if isinstance(error.__cause__, ValidationError):
                error.message = plain(error.__cause__)
            raise


def plain(error: ValidationError) -> str:
    """The first thing that is wrong."""
    first = error.errors()[0]
    if first["type"] in _KINDS:
        return f"{first['input']!r} {_KINDS[first['type']]}"
    if first["type"] in _BOUNDS:
        limit, words = _BOUNDS[first["type"]]
        return f"{first['input']} won't do: give {first.get('ctx', {}).get(limit, 0):g} {words}"
    return first["msg"].removeprefix("Value error, ")
