"""Adding a GPU pool to a stack's file: comments, order and layout of all that is there stay as they are."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq
from ruamel.yaml.constructor import RoundTripConstructor
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import RoundTripRepresenter

from sparewheel.api.gpu_pool import MAX_POOL_NAME, POOL_NAME, same_nodes

KEY: Final = "sparewheel:pools"

Entry = dict[str, Any]


class PoolError(Exception):
    """The pool can't be added; the message says why and what would be right. The file is as it was."""


@dataclass(frozen=True, slots=True)
class NewMachine:
    """A machine reached by SSH; ``host_key`` is its public host key."""

    name: str
    address: str
    host_key: str


@dataclass(frozen=True, slots=True)
class NewPool:
    """What ``pool add`` was asked for. ``like`` names a pool whose other settings are taken over."""

    name: str
    size: int
    spares: int = 0
    gpus_per_node: int | None = None
    machines: Sequence[NewMachine] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict[str, str])
    like: str | None = None


def parse_machine(text: str) -> NewMachine:
    """`NAME,ADDRESS,HOST-KEY`, as a command line has it."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(parts):
        raise PoolError(f"machine {text!r} isn't NAME,ADDRESS,HOST-KEY; 'ssh-keyscan -t ed25519 ADDRESS' shows the key")
    return NewMachine(*parts)


def parse_selector(text: str) -> tuple[str, str]:
    """`KEY=VALUE`, as a command line has it."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise PoolError(f"selector {text!r} isn't KEY=VALUE, a label of the nodes")
    return key, value


def place_of(error: YAMLError) -> str:
    """What is wrong with a YAML text, and in which line."""
    return " ".join(str(error).partition("To suppress")[0].split())


def add_pool(path: Path, pool: NewPool) -> None:
    """Add ``pool`` to the stack's file at ``path``, in one step: the file is whole at every moment."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise PoolError(f"{path} can't be read: {error.strerror}; name an environment's Pulumi.<env>.yaml") from error
    except UnicodeDecodeError as error:
        raise PoolError(f"{path} is no text; name an environment's Pulumi.<env>.yaml") from error
    yaml = _yaml(text)
    try:
        document = cast("Entry | None", yaml.load(text))  # pyright: ignore[reportUnknownMemberType]
    except YAMLError as error:
        raise PoolError(f"{path} is no YAML: {place_of(error)}; set it right first") from error
    config = cast("Entry | None", document.get("config")) if isinstance(document, dict) else None
    if not isinstance(config, dict):
        raise PoolError(f"{path} has no 'config:'; is it a stack's file?")
    if config.get(KEY) is None or isinstance(config[KEY], _Null):
        config[KEY] = CommentedSeq()
    pools: Any = config[KEY]
    if not isinstance(pools, list):
        raise PoolError(f"{path}: {KEY} isn't a list; write each pool as an item of it")
    entries = cast("list[Entry]", pools)
    try:
        model = _model(path, pool, entries)
        _refuse(path, pool, entries)
        entries.append(_entry(pool, model))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PoolError(f"{path}: a pool there is incomplete; 'pulumi preview' says what is wrong with it") from error
    out = io.StringIO()
    yaml.dump(document, out)  # pyright: ignore[reportUnknownMemberType]
    _replace(path, out.getvalue())


def _refuse(path: Path, pool: NewPool, entries: list[Entry]) -> None:
    if not re.fullmatch(POOL_NAME, pool.name) or len(pool.name) > MAX_POOL_NAME:
        raise PoolError(
            f"{pool.name!r} is no name for a pool: small letters, digits and hyphens, a letter first, "
            f"at most {MAX_POOL_NAME} characters"
        )
    if any(entry.get("name") == pool.name for entry in entries):
        raise PoolError(f"{path} has a pool {pool.name} already; choose another name, or change its size there")
    if pool.size < 1 or pool.spares < 0:
        raise PoolError(f"pool {pool.name}: size is 1 or more and spares 0 or more, not {pool.size} and {pool.spares}")
    if bool(pool.machines) == bool(pool.node_selector):
        raise PoolError(f"pool {pool.name}: give either machines or a node selector")
    for entry in entries:
        selector = cast("dict[str, str]", _backend_of(entry).get("node_selector") or {})
        if pool.node_selector and selector and same_nodes(pool.node_selector, selector):
            raise PoolError(f"pool {entry['name']} selects the same nodes; give {pool.name} another selector")
    taken = {str(machine["name"]): str(entry["name"]) for entry in entries for machine in _machines(entry)}
    names = [machine.name for machine in pool.machines]
    for name in names:
        if name in taken:
            raise PoolError(f"machine {name} is in pool {taken[name]} already; a machine is in one pool")
        if names.count(name) > 1:
            raise PoolError(f"machine {name} is given twice")
    if pool.machines and pool.size + pool.spares > len(names):
        raise PoolError(
            f"pool {pool.name}: size {pool.size} and {pool.spares} spare(s) need {pool.size + pool.spares} machines, "
            f"but {len(names)} are given"
        )


def _machines(entry: Entry) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", _backend_of(entry).get("machines") or [])


def _backend_of(entry: Entry) -> dict[str, Any]:
    return cast("dict[str, Any]", entry.get("backend") or {})


def _model(path: Path, pool: NewPool, entries: list[Entry]) -> Entry:
    """What is taken over from ``like``."""
    if pool.like is None:
        return {}
    found = next((entry for entry in entries if entry.get("name") == pool.like), None)
    if found is None:
        raise PoolError(f"{path} has no pool {pool.like} to be like; pools there: {_names(entries)}")
    return {key: value for key, value in found.items() if key not in ("name", "size", "spares", "replace")}


def _entry(pool: NewPool, model: Entry) -> Entry:
    """The new item: the asked-for settings first, then the model's."""
    entry: Entry = {"name": pool.name, "size": pool.size, "spares": pool.spares}
    if pool.gpus_per_node is not None:
        entry["gpus_per_node"] = pool.gpus_per_node
    elif "gpus_per_node" in model:
        entry["gpus_per_node"] = model["gpus_per_node"]
    for key, value in model.items():
        if key not in ("backend", "gpus_per_node", "partition"):
            entry[key] = _plain(value)
    entry["backend"] = _backend(pool, _backend_of(model))
    return entry


def _backend(pool: NewPool, model: dict[str, Any]) -> Entry:
    if pool.node_selector:
        return {"kind": "warm", "node_selector": dict(pool.node_selector)}
    taken_over = _plain(model) if model.get("kind") == "machines" else {"kind": "machines", "key_ref": "machines-ssh"}
    machines = [
        {"name": machine.name, "ssh": {"address": machine.address, "host_key": machine.host_key}}
        for machine in pool.machines
    ]
    return {**{key: value for key, value in taken_over.items() if key != "machines"}, "machines": machines}


def _plain(value: Any) -> Any:
    """A copy without the comments and anchors of the original."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value)
        return {str(key): _plain(item) for key, item in pairs.items()}
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    return value


def _names(entries: list[Entry]) -> str:
    return ", ".join(str(entry.get("name")) for entry in entries) or "none"


class _Null(str):
    """A null that is spelt out, as its file spells it: ruamel's own would come back as nothing at all."""

    __slots__ = ()


class _Constructor(RoundTripConstructor):
    """Tells a null that is spelt out from an empty one."""

    def spelt_null(self, node: ScalarNode) -> _Null | None:
        text = cast("str", node.value)  # pyright: ignore[reportUnknownMemberType]
        return _Null(text) if text else None


class _Representer(RoundTripRepresenter):
    """Writes a null as it was spelt."""

    def spelt_null(self, null: _Null) -> ScalarNode:
        return self.represent_scalar(_NULL_TAG, str(null))  # pyright: ignore[reportUnknownMemberType]


_NULL_TAG: Final = "tag:yaml.org,2002:null"
_Constructor.add_constructor(_NULL_TAG, _Constructor.spelt_null)  # pyright: ignore[reportUnknownMemberType]
_Representer.add_representer(_Null, _Representer.spelt_null)  # pyright: ignore[reportUnknownMemberType]


def _yaml(text: str) -> YAML:
    """A reader and writer that keeps the file's own layout, also how far its lists are indented."""
    yaml = YAML(typ="rt")
    yaml.Constructor = _Constructor
    yaml.Representer = _Representer
    yaml.preserve_quotes = True
    yaml.width = 100_000
    dash = re.search(r"^( *)[^\s#-][^\n]*:[ \t]*\n(?:[ \t]*#[^\n]*\n)*( *)- ", text, re.MULTILINE)
    offset = len(dash.group(2)) - len(dash.group(1)) if dash else 2
    yaml.indent(mapping=2, sequence=offset + 2, offset=offset)  # pyright: ignore[reportUnknownMemberType]
    return yaml


def _replace(path: Path, text: str) -> None:
    """Whole or as it was: also on a full disk, after a kill and where ``path`` is a link."""
    path = path.resolve()
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.chmod(path.stat().st_mode & 0o777)
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise PoolError(f"{path} can't be written: {error.strerror}; it is as it was") from error
