"""Base of our API models: camelCase on the wire, unknown fields refused, times in RFC 3339 UTC."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from copy import deepcopy
from datetime import UTC, datetime
from enum import Enum
from functools import cache, lru_cache
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel


def _to_utc(value: object) -> object:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime) and value.tzinfo is not UTC:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value


def format_time(value: datetime) -> str:
    """RFC 3339 with microseconds and Z, as Kubernetes MicroTime writes it."""
    return value.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


Time = Annotated[
    datetime,
    BeforeValidator(_to_utc),
    PlainSerializer(format_time, return_type=str, when_used="json"),
]


_EVER_NEW: Final = frozenset(("resource_version", "uid"))
"""Nothing to be shared, and interned strings stay for good in some Pythons."""
SHORT: Final = 64
"""Letters of a name: longer strings are sentences, of which there are no two."""
Model = TypeVar("Model", bound=BaseModel)
_NO_FIELDS: Final[set[str]] = set()
_UNCHANGING: Final = frozenset((str, int, float, bool, type(None), datetime))


def _can_change(annotation: Any) -> bool:
    """Can a value of this type be changed in place?"""
    kind, inside = get_origin(annotation), get_args(annotation)
    if kind is Annotated:
        return _can_change(inside[0])
    if kind in {Union, UnionType}:
        return any(map(_can_change, inside))
    leaf = annotation in _UNCHANGING or (isinstance(annotation, type) and issubclass(annotation, Enum))
    return kind is not Literal and not leaf


@cache
def _changing(kind: type[BaseModel]) -> tuple[str, ...]:
    """Its fields, but for those whose values can be shared: most hold a text, a number or a time."""
    return tuple(name for name, field in kind.model_fields.items() if _can_change(field.annotation))


class _Copied(BaseModel):
    """Deep copies as ``copy.deepcopy`` makes them, several times faster: each change of a journal makes one."""

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """What can't change is shared. Our models are trees: nothing stands in them twice."""
        new, values, extra = type(self).__new__(type(self)), self.__dict__.copy(), self.__pydantic_extra__
        for name in _changing(type(self)):
            values[name] = _copied(values[name])
        object.__setattr__(new, "__dict__", values)
        object.__setattr__(new, "__pydantic_extra__", None if extra is None else _copied(extra))
        object.__setattr__(new, "__pydantic_fields_set__", set(self.__pydantic_fields_set__))
        object.__setattr__(new, "__pydantic_private__", None)
        return new


def lean(value: Model) -> Model:
    """Equal, and half as large, for caches of ten thousand objects.

    Which fields were set is forgotten. Objects of a class share the table of their attributes' names. Short strings and
    parts whose class is frozen stand once for all that are equal.
    """
    return cast("Model", _lean(value))


def _lean(value: Any) -> Any:
    if type(value) is str:
        return sys.intern(value) if len(value) <= SHORT else value
    if isinstance(value, list):
        return [_lean(item) for item in cast("list[Any]", value)]
    if type(value) in _UNCHANGING or isinstance(value, Enum) or not isinstance(value, BaseModel):
        return value  # asked in this order, since a model's class takes long to say what is none of it
    new = type(value).__new__(type(value))
    for name, item in value.__dict__.items():
        kept = item if name in _EVER_NEW else _lean(item)
        object.__setattr__(new, name, kept)  # one by one: a dict set as a whole has a table of its own
    object.__setattr__(new, "__pydantic_extra__", value.__pydantic_extra__)
    object.__setattr__(new, "__pydantic_fields_set__", _NO_FIELDS)
    object.__setattr__(new, "__pydantic_private__", None)
    return _once(cast("Hashable", new)) if value.model_config.get("frozen") else new


@lru_cache(maxsize=1024)
def _once(part: Hashable) -> Hashable:
    return part


def _copied(value: Any) -> Any:
    if type(value) in _UNCHANGING or isinstance(value, Enum):
        return value
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_copied(item) for item in cast("list[Any]", value)]
    own = getattr(value, "__deepcopy__", None)  # as deepcopy does, which looks at more before
    return deepcopy(value) if own is None else own()


class ApiModel(_Copied):
    """A piece of one of our objects."""

    model_config = ConfigDict(
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        validate_assignment=True,
        use_attribute_docstrings=True,
    )


class ObjectMeta(_Copied):
    """The fields of metadata that we use; the rest is kept as it came."""

    model_config = ConfigDict(extra="allow", alias_generator=to_camel, populate_by_name=True)

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None


class ApiObject(ApiModel):
    """One of our kinds: apiVersion, kind, metadata, spec, status."""

    KIND: ClassVar[str]
    PLURAL: ClassVar[str]
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ()
    NAMESPACED: ClassVar[bool] = True
    COLUMNS: ClassVar[tuple[tuple[str, str, str], ...]] = ()
    """Printer columns: (title, OpenAPI type, JSON path)."""

    api_version: str = "sparewheel.dev/v1alpha1"
    kind: str = ""
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)

    def to_wire(self) -> dict[str, Any]:
        """The object as JSON for the API server; unset optional fields are left out."""
        body = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        body["apiVersion"], body["kind"] = self.api_version, self.KIND
        return body

    @classmethod
    def from_wire(cls, body: dict[str, Any]) -> Self:
        """Read what the API server sent; errors are pydantic's, naming the field."""
        return cls.model_validate(body)
