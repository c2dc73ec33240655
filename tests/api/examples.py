"""An example of any model of ours with every field filled; made from the model, so that new fields are covered."""

from __future__ import annotations

import re
import types
import typing
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sparewheel.api.base import ApiObject

MOST_ALTERNATIVES = 4
"""Of one union: the kinds of routes."""
TEXTS = (
    "name-1",
    "01234567-89ab-cdef-0123-456789abcdef",
    "{name}.example",
    "https://name-1.example",
    "unix:///run/name-1.sock",
)
TIME = datetime(2026, 3, 4, 5, 6, 7, 890123, tzinfo=UTC)


def examples(model: type[ApiObject]) -> list[dict[str, Any]]:
    """One full object on the wire per alternative of its unions (at least one)."""
    objects: list[dict[str, Any]] = []
    for choice in range(MOST_ALTERNATIVES):
        built = _model(model, choice, skip=("metadata", "kind", "api_version"))
        built["metadata"] = {"name": f"{model.KIND.lower()}-{choice}"}
        wire = model.model_validate(built).to_wire()
        wire["metadata"] = built["metadata"]
        objects.append(wire)
    return objects


def _model(model: type[BaseModel], choice: int, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        name: _value(field.annotation, field, choice) for name, field in model.model_fields.items() if name not in skip
    }


def _value(annotation: Any, field: FieldInfo | None, choice: int) -> Any:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in {typing.Union, types.UnionType}:
        real = [arg for arg in args if arg is not type(None)]
        return _value(real[choice % len(real)], field, choice)
    if origin is typing.Annotated:
        return _value(args[0], field, choice)
    if origin is typing.Literal:
        return args[0]
    if origin is list:
        return [_value(args[0], None, choice)]
    if origin is dict:
        return {"example.dev/key": _value(args[1], None, choice)}
    if not isinstance(annotation, type):
        raise TypeError(f"no example for {annotation!r}")
    if issubclass(annotation, BaseModel):
        return _model(annotation, choice)
    if issubclass(annotation, Enum):
        members = list(annotation)
        return members[choice % len(members)]
    samples: dict[Any, Any] = {str: _text(field), bool: choice == 0, int: 7, float: 2.5, datetime: TIME}
    sample = samples[annotation]
    return _within(sample, field) if annotation in {int, float} else sample


def _text(field: FieldInfo | None) -> str:
    """The first of our texts that the field's pattern allows."""
    patterns = [limit.pattern for limit in (field.metadata if field else []) if getattr(limit, "pattern", None)]
    return next(text for text in TEXTS if all(re.search(pattern, text) for pattern in patterns))


def _within(sample: float, field: FieldInfo | None) -> float:
    """The sample, moved to where the field's limits allow it."""
    limits: list[Any] = list(field.metadata) if field is not None else []
    for limit in limits:
        least, below = getattr(limit, "ge", None), getattr(limit, "lt", None)
        if least is not None:
            sample = max(sample, least)
        if below is not None and sample >= below:
            sample = below / 2
    return sample
