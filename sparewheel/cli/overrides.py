"""A stack's own word on faults, read from its file or from a RemediationPolicy, without asking the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from sparewheel.api.enums import Action, NodeActionKind
from sparewheel.api.names import MEASURED_CODES, NODE_CODES
from sparewheel.cli.common import CommandError
from sparewheel.faults.catalogue import named_codes
from sparewheel.faults.patterns import is_code_or_pattern
from sparewheel.pools import place_of

HEALING: Final = "sparewheel:remediation"
READ: Final = ("fault_overrides", "agent", "ladder")
"""What is read of it; all that a stack may say is the stack's own to check."""


@dataclass(frozen=True, slots=True)
class Words:
    """``rungs``: what is tried on a node before it is replaced, mildest first; a pool may have a ladder of its own."""

    actions: Mapping[str, Action] = field(default_factory=dict[str, Action])
    rungs: Sequence[NodeActionKind] = ()


def of_stack(path: Path) -> Words:
    """Of a stack's file, ``stacks/Pulumi.<env>.yaml``."""
    whole = _read(path)
    areas = [key for key, value in _settings(path, whole, "config").items() if not _is_secret(value)]
    _spelt(path, "", [key.removeprefix("sparewheel:") for key in areas if key.startswith("sparewheel:")], "remediation")
    healing = _settings(path, whole, "config", HEALING)
    _spelt(path, "remediation.", healing, *READ)
    rules: object = healing.get("fault_overrides") or dict[str, object]()
    if not isinstance(rules, Mapping):
        raise CommandError(f"{path}: config.{HEALING}.fault_overrides isn't a list of 'CODE: action'")
    rules = cast("Mapping[object, object]", rules)
    for code, rule in rules.items():
        if isinstance(rule, Mapping):
            _spelt(path, f"remediation.fault_overrides.{code}.", cast("Mapping[str, object]", rule), "action")
    agent = _settings(path, whole, "config", HEALING, "agent")
    _spelt(path, "remediation.agent.", agent, "node_actions")
    ladder = _settings(path, whole, "config", HEALING, "ladder")
    _spelt(path, "remediation.ladder.", ladder, "rungs")
    helpers = agent.get("node_actions") is True
    kinds = ladder.get("rungs", list(NodeActionKind) if helpers else [])
    return Words(_actions(path, rules), _rungs(path, kinds, helpers=helpers))


def of_policy(path: Path) -> Words:
    """Of a RemediationPolicy, as ``kubectl get rp default -o yaml`` prints it."""
    whole = _read(path)
    spec = _settings(path, whole, "spec")
    rules: object = spec.get("faultPolicies") or list[object]()
    if not isinstance(rules, list):
        raise CommandError(f"{path}: spec.faultPolicies isn't a list of 'code: CODE' with an action")
    rungs: object = _settings(path, whole, "spec", "ladder").get("rungs") or list[object]()
    listed = cast("list[object]", rungs if isinstance(rungs, list) else [rungs])
    kinds = [cast("Mapping[str, object]", rung).get("kind") if isinstance(rung, Mapping) else rung for rung in listed]
    actions = _actions(path, dict(_named(rule) for rule in cast("list[object]", rules)))
    return Words(actions, _rungs(path, kinds, helpers=spec.get("nodeHelpers") is not False))


def _settings(path: Path, whole: object, *keys: str) -> Mapping[str, Any]:
    if not isinstance(whole, Mapping) or keys[0] not in whole:
        raise CommandError(f"{path} has no '{keys[0]}:'; is it the right file?")
    found = cast("Mapping[object, Any]", whole)
    for depth, key in enumerate(keys, 1):
        value = found.get(key) or dict[object, Any]()
        if not isinstance(value, Mapping):
            raise CommandError(f"{path}: {'.'.join(keys[:depth])} holds no settings")
        found = cast("Mapping[object, Any]", value)
    return {str(key): setting for key, setting in found.items()}


def _is_secret(value: object) -> bool:
    """Secrets stand beside the areas, under names of the user's."""
    return isinstance(value, Mapping) and "secure" in value


def _spelt(path: Path, place: str, there: Iterable[str], *known: str) -> None:
    """Refuses a setting that is nearly one of those that are read, in the words of the stack's own check."""
    for key in map(str, there):
        close = get_close_matches(key, known, n=1)
        if close and key not in known:
            raise CommandError(f"{path}: {place}{key}: there is no such setting; did you mean {close[0]}?")


def _rungs(path: Path, kinds: object, *, helpers: bool) -> tuple[NodeActionKind, ...]:
    """Without helpers only a reboot is left, by the pool's capacity backend."""
    try:
        listed = cast("list[object]", kinds if isinstance(kinds, list) else [kinds])
        found = [NodeActionKind(str(kind)) for kind in listed]
    except ValueError:
        raise CommandError(f"{path}: ladder.rungs: {kinds!r}; rungs are {', '.join(NodeActionKind)}") from None
    return tuple(kind for kind in found if helpers or kind is NodeActionKind.REBOOT)


def _actions(path: Path, rules: Mapping[Any, object]) -> dict[str, Action]:
    """A rule without an action, or with repeats alone, leaves the catalogue's."""
    found: dict[str, Action] = {}
    for code, rule in rules.items():
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
