"""Pulumi's property values between protobuf structs and Python values.

Secrets arrive and leave as `Secret`; an unknown value of a preview is the engine's own mark, a plain string. The marks
are the ones of the engine's RPC protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from google.protobuf import json_format, struct_pb2

_MARK = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"
_ASSET = "c44067f5952c0a294b673a41bacd8c17"
_ARCHIVE = "0def7320c3a5731c473e5ecbe6d01bc7"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"

Properties = dict[str, Any]


@dataclass(frozen=True)
class Secret:
    """A value that the engine keeps encrypted and never shows."""

    value: Any


@dataclass(frozen=True)
class Source:
    """An asset (one file) or an archive (a folder or packed files).

    path: where it lies on this machine; None for one made of text, of an address or of other assets.
    digest: the engine's hash of its content; empty where it gave none.
    """

    archive: bool
    path: str | None
    digest: str


def read(struct: struct_pb2.Struct) -> Properties:
    """A struct as Python values, secrets kept apart."""
    plain = json_format.MessageToDict(struct)
    return {name: _read(value) for name, value in plain.items() if value is not None}


def write(properties: Properties) -> struct_pb2.Struct:
    """Python values as a struct, secrets marked as such."""
    struct = struct_pb2.Struct()
    json_format.ParseDict({name: _write(value) for name, value in properties.items() if value is not None}, struct)
    return struct


def reveal(value: Any) -> Any:
    """The value without any of its secret marks, to be used but never to be shown."""
    if isinstance(value, Secret):
        return reveal(value.value)
    if isinstance(value, list):
        return [reveal(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: reveal(item) for name, item in cast("Properties", value).items()}
    return value


def is_secret(value: Any) -> bool:
    """Whether the value or anything in it is a secret."""
    if isinstance(value, Secret):
        return True
    if isinstance(value, list):
        return any(is_secret(item) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        return any(is_secret(item) for item in cast("Properties", value).values())
    return False


def same(old: Any, new: Any) -> bool:
    """Whether two values are the same to a command; a source is what it holds, not where it lies."""
    old, new = reveal(old), reveal(new)
    if isinstance(old, Source) and isinstance(new, Source) and old.digest and new.digest:
        return (old.archive, old.digest) == (new.archive, new.digest)
    return bool(old == new)


def source_of(value: Any) -> Source | None:
    """The asset or archive that a revealed value is."""
    return value if isinstance(value, Source) else None


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return [_read(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("Properties", value)
    mark = fields.get(_MARK)
    if mark == _SECRET:
        return Secret(_read(fields.get("value")))
    if mark in (_ASSET, _ARCHIVE):
        return Source(mark == _ARCHIVE, fields.get("path"), str(fields.get("hash") or ""))
    return {name: _read(item) for name, item in fields.items()}


def _write(value: Any) -> Any:
    if isinstance(value, Secret):
        return {_MARK: _SECRET, "value": _write(value.value)}
    if isinstance(value, Source):
        fields = {_MARK: _ARCHIVE if value.archive else _ASSET, "path": value.path, "hash": value.digest}
        return {name: item for name, item in fields.items() if item}
    if isinstance(value, list):
        return [_write(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _write(item) for name, item in cast("Properties", value).items()}
    return value
