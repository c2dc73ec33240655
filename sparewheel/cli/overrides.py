"""A stack's own word on fault codes, read from its file or from a RemediationPolicy, without asking the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from sparewheel.api.enums import Action
from sparewheel.api.names import MEASURED_CODES
from sparewheel.cli.common import CommandError
from sparewheel.faults.catalogue import is_code

STACK_KEYS: Final = ("config", "sparewheel:remediation", "fault_overrides")
POLICY_KEYS: Final = ("spec", "faultOverrides")


def of_stack(path: Path) -> dict[str, Action]:
    """``fault_overrides`` of a stack's file, ``stacks/Pulumi.<env>.yaml``."""
    return _overrides(path, STACK_KEYS)


def of_policy(path: Path) -> dict[str, Action]:
    """``faultOverrides`` of a RemediationPolicy, as ``kubectl get rp default -o yaml`` prints it."""
    return _overrides(path, POLICY_KEYS)


def _overrides(path: Path, keys: tuple[str, ...]) -> dict[str, Action]:
    value: Any = _read(path)
    if not isinstance(value, Mapping) or keys[0] not in value:
        raise CommandError(f"{path} has no '{keys[0]}:'; is it the right file?")
    for depth, key in enumerate(keys):
        if not isinstance(value, Mapping):
            raise CommandError(f"{path}: {'.'.join(keys[:depth])} holds no settings")
        value = cast("Mapping[str, Any]", value).get(key) or {}
    if not isinstance(value, Mapping):
        raise CommandError(f"{path}: {'.'.join(keys)} isn't a list of 'CODE: action'")
    pairs = cast("Mapping[object, object]", value)
    return {str(code): _action(path, str(code), action) for code, action in pairs.items()}


def _action(path: Path, code: str, action: object) -> Action:
    if not is_code(code) and code not in MEASURED_CODES:
        raise CommandError(f"{path}: {code!r} is no fault code; write 'XID 63', 'SXID 20034' or 'MLX5_FATAL'")
    try:
        return Action(str(action))
    except ValueError:
        raise CommandError(f"{path}: {code}: {action!r} is no action; actions are {', '.join(Action)}") from None


def _read(path: Path) -> Any:
    try:
        return YAML(typ="safe").load(path.read_text("utf-8"))  # pyright: ignore[reportUnknownMemberType]
    except OSError as error:
        raise CommandError(f"{path} can't be read: {error.strerror}") from error
    except (UnicodeDecodeError, YAMLError) as error:
        raise CommandError(f"{path} is no YAML; give a stack's file or a RemediationPolicy") from error
