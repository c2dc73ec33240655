"""``true`` where a number is meant: pydantic reads it as 1, and a pool would have one node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class NoNumber:
    """Stands in for a misplaced ``true`` or ``false``, so that its field refuses it with its own path."""

    value: bool

    def __repr__(self) -> str:
        return str(self.value).lower()


def true_is_no_number(value: object, annotation: Any) -> object:
    """A copy of ``value`` in which no ``true`` or ``false`` stands where ``annotation`` wants a number."""
    kinds = list(_kinds(annotation))
    if isinstance(value, bool):
        wants_number = bool not in kinds and any(kind in kinds for kind in (int, float))
        return NoNumber(value) if wants_number else value
    if isinstance(value, list):
        return [true_is_no_number(item, annotation) for item in cast("list[object]", value)]
    if not isinstance(value, Mapping):
        return value
    models = [kind for kind in kinds if issubclass(kind, BaseModel)]
    return {
        key: true_is_no_number(item, _field(models, key) if models else annotation)
        for key, item in cast("Mapping[object, object]", value).items()
    }


def _field(models: list[type[BaseModel]], key: object) -> Any:
    """The annotation of a field that one of the models has; they agree, or have no number there."""
    fields = ((name, info) for model in models for name, info in model.model_fields.items())
    return next((info.annotation for name, info in fields if key in (name, info.alias)), None)


def _kinds(annotation: Any) -> Iterator[type]:
    """Every class that an annotation names: ``dict[str, int] | None`` is dict, str, int and None."""
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for inner in get_args(annotation):
        yield from _kinds(inner)
