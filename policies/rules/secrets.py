"""No secret in clear: not in a resource's inputs, not in the stack's file, not in its outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from policies.model import CONFIG_TYPE, STACK_TYPE, Given, Level, Resource, Rule
from policies.values import at, containers, fields, hidden, items, leaves, pod_specs

_LOOKS: Final = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"), "a private key"),
    (re.compile(r"\bclient-key-data\b"), "a kubeconfig with its key"),
    (re.compile(r"hooks\.slack\.com/services/T[A-Z0-9]+/"), "a Slack webhook"),
    (re.compile(r"\bxox[abprs]-[0-9A-Za-z-]{10,}"), "a Slack token"),
    (re.compile(r"\bgh[oprsu]_[0-9A-Za-z]{30,}"), "a GitHub token"),
    (re.compile(r"\bAKIA[0-9A-Z]{16}\b"), "an AWS access key"),
    (re.compile(r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"), "a signed token"),
    (re.compile(r"\b[a-z][a-z0-9+.-]*://[^/\s:@]+:[^/\s@]+@"), "an address with a password"),
)
_NAMED: Final = re.compile(r"(password|passphrase|token|api_?key|private_?key|routing_?key)$", re.IGNORECASE)
_SWITCH: Final = frozenset(("yes", "no", "true", "false", "1", "0", ""))
"""A variable that switches something on or off, whatever its name."""


def no_secret_in_clear(resource: Resource, _given: Given) -> Iterator[str]:
    """No input holds a secret in clear: keys, tokens and passwords are secrets of the stack."""
    if resource.kind == "CustomResourceDefinition":
        return
    where = "setting" if resource.type == CONFIG_TYPE else "input"
    for path, value in leaves(resource.inputs):
        found = _why_secret(path, value)
        if found:
            yield f"{resource.label}: {where} {path} holds {found} in clear; make it a secret of the stack"
    for _, pod in pod_specs(resource):
        for one in containers(pod):
            for variable in items(one, "env"):
                name, value = at(variable, "name"), at(variable, "value")
                if isinstance(name, str) and _NAMED.search(name) and _plain(value):
                    yield f"{resource.label}: variable {name} holds a secret in clear; take it from a Secret"
    if resource.kind == "Secret" and resource.type.startswith("kubernetes:"):
        yield from _open_values(resource)


def _open_values(resource: Resource) -> Iterator[str]:
    for area in ("data", "stringData"):
        for key, value in fields(resource.inputs, area).items():
            if _plain(value):
                yield f"{resource.label}: {area}.{key} is in clear in the stack's state; give it as a secret"


def _why_secret(path: str, value: Any) -> str:
    """What the value looks like; empty: nothing secret. The value itself is never shown."""
    if not isinstance(value, str) or hidden(value):
        return ""
    looks = next((name for pattern, name in _LOOKS if pattern.search(value)), "")
    if looks:
        return looks
    last = path.rpartition(".")[2]
    return "a secret" if _NAMED.search(last) and _plain(value) else ""


def _plain(value: Any) -> bool:
    return isinstance(value, str) and not hidden(value) and value.lower() not in _SWITCH


def outputs_hide_secrets(resource: Resource, _given: Given) -> Iterator[str]:
    """No output of the stack shows a secret."""
    if resource.type != STACK_TYPE:
        return
    for path, value in leaves(resource.outputs):
        name = path.partition(".")[0]
        if _why_secret(path, value) or ("kubeconfig" in name.lower() and _plain(value)):
            yield f"output {name} shows a secret; export it by pulumi.Output.secret"


RULES: Final = (
    Rule("no-secret-in-clear", Level.MANDATORY, "Pulumi: secrets", check=no_secret_in_clear),
    Rule(
        "outputs-hide-secrets", Level.MANDATORY, "Pulumi: secrets, outputs", check=outputs_hide_secrets, of_outputs=True
    ),
)
