"""A stack's own word on fault codes, read from its file or from a RemediationPolicy, without asking the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from sparewheel.api.enums import Action
from sparewheel.api.names import MEASURED_CODES, NODE_CODES
from sparewheel.cli.common import CommandError
from sparewheel.faults.catalogue import named_codes
from sparewheel.faults.patterns import is_code_or_pattern
from sparewheel.pools import place_of

STACK_KEYS: Final = ("config", "sparewheel:remediation", "fault_overrides")
POLICY_KEYS: Final = ("spec", "faultPolicies")


def of_stack(path: Path) -> dict[str, Action]:
    """``fault_overrides`` of a stack's file, ``stacks/Pulumi.<env>.yaml``."""
    return _overrides(path, STACK_KEYS)


def of_policy(path: Path) -> dict[str, Action]:
    """``faultPolicies`` of a RemediationPolicy, as ``kubectl get rp default -o yaml`` prints it."""
    return _overrides(path, POLICY_KEYS)


def _overrides(path: Path, keys: tuple[str, ...]) -> dict[str, Action]:
    """The actions; a rule without one, or with repeats alone, leaves the catalogue's."""
    value: Any = _read(path)
    if not isinstance(value, Mapping) or keys[0] not in value:
        raise CommandError(f"{path} has no '{keys[0]}:'; is it the right file?")
    for depth, key in enumerate(keys):
        if not isinstance(value, Mapping):
            raise CommandError(f"{path}: {'.'.join(keys[:depth])} holds no settings")
        value = cast("Mapping[str, Any]", value).get(key) or {}
    if isinstance(value, list) and keys == POLICY_KEYS:
        value = dict(_named(rule) for rule in cast("list[object]", value))
    if not isinstance(value, Mapping):
        raise CommandError(f"{path}: {'.'.join(keys)} isn't a list of 'CODE: action'")
    found: dict[str, Action] = {}
    for code, rule in cast("Mapping[object, object]", value).items():
        action = cast("Mapping[str, object]", rule).get("action") if isinstance(rule, Mapping) else rule
        if action is not None:
            found[str(code)] = _action(path, str(code), action)
    return found


def _named(rule: object) -> tuple[str, object]:
    if not isinstance(rule, Mapping):
        return str(rule), rule
    return str(cast("Mapping[str, object]", rule).get("code")), cast("object", rule)


def _action(path: Path, code: str, action: object) -> Action:
    if not is_code_or_pattern(code, (*named_codes(), *MEASURED_CODES, *NODE_CODES)):
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
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is no text; give a stack's file or a RemediationPolicy") from error
    except YAMLError as error:
        raise CommandError(f"{path} is no YAML: {place_of(error)}; set it right first") from error
