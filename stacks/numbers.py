"""What pydantic takes for a number and nobody meant: ``true``, which is 1, and numbers that nothing can count to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast, get_args, get_origin

from pydantic import BaseModel

LARGEST: Final = 2**31 - 1
"""Of a setting: 68 years in seconds. What follows from it, a time or a number of Kubernetes', still exists."""
LARGEST_AMOUNT: Final = 2**63 - 1
"""Of an amount in a unit of the user's, such as bytes."""


@dataclass(frozen=True, slots=True)
class NoNumber:
    """Stands in for what is no number, so that its field refuses it with its own path; ``shown``: as users wrote it."""

    shown: str

    def __repr__(self) -> str:
        return self.shown


def only_numbers(value: object, annotation: Any, largest: int = LARGEST) -> object:
    """A copy of ``value`` in which no ``true`` and nothing too large stands where ``annotation`` wants a number."""
    kinds = list(_kinds(annotation))
    wants_number = bool not in kinds and any(kind in kinds for kind in (int, float))
    if isinstance(value, bool):
        return NoNumber(str(value).lower()) if wants_number else value
    if isinstance(value, int | float | str):
        too_large = wants_number and str not in kinds and _size(value) > largest
        return NoNumber(f"{str(value)[:24]} (too large)") if too_large else value
    if isinstance(value, list):
        return [only_numbers(item, annotation, largest) for item in cast("list[object]", value)]
    if not isinstance(value, Mapping):
        return value
    models = [kind for kind in kinds if issubclass(kind, BaseModel)]
    items = cast("Mapping[object, object]", value).items()
    if models:
        return {key: only_numbers(item, _field(models, key)) for key, item in items}
    return {key: only_numbers(item, _value(annotation), LARGEST_AMOUNT) for key, item in items}


def _size(value: float | str) -> float:
    """How large; 0 for what is no finite number, which its field says better."""
    try:
        number = float(value)
    except ValueError:
        return 0
    except OverflowError:
        return math.inf
    return number if math.isfinite(number) else 0


def _field(models: list[type[BaseModel]], key: object) -> Any:
    """The annotation of a field that one of the models has; they agree, or have no number there."""
    fields = ((name, info) for model in models for name, info in model.model_fields.items())
    return next((info.annotation for name, info in fields if key in (name, info.alias)), None)


def _value(annotation: Any) -> Any:
    """What a mapping's entries are; as it is, where the annotation is of no mapping."""
    arguments = get_args(annotation)
    if get_origin(annotation) is dict:
        return arguments[1]
    return next((found for inner in arguments if (found := _value(inner)) is not inner), annotation)


def _kinds(annotation: Any) -> Iterator[type]:
    """Every class that an annotation names: ``dict[str, int] | None`` is dict, str, int and None."""
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for inner in get_args(annotation):
        yield from _kinds(inner)
