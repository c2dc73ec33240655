"""Turns pydantic's errors into sentences: the path as the user wrote it, what is wrong, what would be right."""

from __future__ import annotations

import types
from difflib import get_close_matches
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

Loc = tuple[int | str, ...]


def explain(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """One line for each wrong setting, in the order of the file."""
    lines: list[str] = []
    for detail in error.errors(include_url=False):
        parts, owner, field = _resolve(model, detail["loc"])
        if detail["type"] == "extra_forbidden":
            parts[-1] = _key(str(detail["loc"][-1]))
        text = _sentence(detail, owner, field)
        lines.append(f"{'.'.join(parts)}: {text}" if parts else text)
    return list(dict.fromkeys(lines))


def _sentence(detail: ErrorDetails, owner: type[BaseModel] | None, field: FieldInfo | None) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return "is missing" + _meaning(field)
    if kind == "extra_forbidden":
        return _no_such(
            str(detail["loc"][-1]), sorted(owner.model_fields) if owner else [], top=len(detail["loc"]) == 1
        )
    if kind == "union_tag_not_found":
        return "kind is missing" + _meaning(field)
    if kind == "union_tag_invalid":
        return f"kind {shown(context['tag'])} isn't known; it is one of {context['expected_tags']}"
    if kind == "value_error":
        return str(context["error"])
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return f"has settings of its own, each as 'name: value', not {shown(detail['input'])}" + _meaning(field)
    return f"{_lower(detail['msg'])}, not {shown(detail['input'])}" + _meaning(field)


def _no_such(key: str, known: list[str], *, top: bool) -> str:
    if key in known:  # a field of the API's models goes by two names
        return "is there in two spellings; leave one of them"
    close = get_close_matches(key, known, n=1)
    if close:
        return f"there is no such setting; did you mean {close[0]}?"
    secret = f"; a secret is set with 'pulumi config set --secret {key}'" if top else ""
    return f"there is no such setting; the settings here are {', '.join(known)}{secret}"


def _key(text: str) -> str:
    """As it was written; with quotes where one would not see what is wrong with it."""
    return text if text.isascii() and text.isprintable() and " " not in text else ascii(text)


def _meaning(field: FieldInfo | None) -> str:
    return f": {field.description}" if field is not None and field.description else ""


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def shown(value: object) -> str:
    """A wrong value, short; a value that could be a secret is never longer than this."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _resolve(model: type[BaseModel], loc: Loc) -> tuple[list[str], type[BaseModel] | None, FieldInfo | None]:
    """The path as the user writes it, in parts, the model that the last step is looked up in, and its field."""
    parts: list[str] = []
    annotation: Any = model
    owner: type[BaseModel] | None = None
    field: FieldInfo | None = None
    for step in loc:
        members = _models(annotation)
        tagged = next((member for member in members if len(members) > 1 and _tag(member) == step), None)
        if tagged is not None:
            annotation = tagged
            continue
        parts.append(str(step))
        if isinstance(step, int):
            annotation, field = _item(annotation), None
            continue
        owner = members[0] if members else None
        name, field = _field(owner, step)
        parts[-1] = name
        annotation = field.annotation if field else _item(annotation)
    return parts, owner, field


def _field(owner: type[BaseModel] | None, step: str) -> tuple[str, FieldInfo | None]:
    for name, info in (owner.model_fields if owner else {}).items():
        if step in (name, info.alias):
            return name, info
    return step, None


def _tag(model: type[BaseModel]) -> str | None:
    info = model.model_fields.get("kind")
    return get_args(info.annotation)[0] if info and get_args(info.annotation) else None


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models that a value at this place may be of."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _models(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [model for member in get_args(annotation) for model in _models(member)]
    return [annotation] if isinstance(annotation, type) and issubclass(annotation, BaseModel) else []


def _item(annotation: Any) -> Any:
    """What a list's or a mapping's entries are."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _item(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return next((found for member in get_args(annotation) if (found := _item(member)) is not None), None)
    arguments = get_args(annotation)
    return arguments[-1] if origin in (list, dict) and arguments else None
