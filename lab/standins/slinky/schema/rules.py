"""Validation rules of the real operator's webhooks, as far as CEL in a schema can say them.

Each: path of the object that the rule sits on, the rule, what the user is told. Rules with ``oldSelf`` hold on updates.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Rule(NamedTuple):
    """One ``x-kubernetes-validations`` entry at ``path`` (dotted, below the object)."""

    path: str
    rule: str
    message: str


def _immutable(path: str, field: str) -> Rule:
    same = f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    return Rule(path, same, f"{path}.{field} is immutable; make a new object instead")


_JWT: Final = Rule("spec", "has(self.jwtKeyRef) || has(self.jwtHs256KeyRef)", "jwtKeyRef or jwtHs256KeyRef must be set")
# The lines of a Slurm config text: empty, a comment, or Key=Value.
_CONF_LINES: Final = "self.extraConf.split('\\n').all(l, l.trim() == '' || l.trim().startsWith('#') || l.contains('='))"

RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "Controller": (
        Rule("spec", "!has(self.clusterName) || size(self.clusterName) <= 40", "clusterName has at most 40 characters"),
        _immutable("spec", "clusterName"),
        _immutable("spec", "slurmKeyRef"),
        _immutable("spec", "jwtKeyRef"),
        _immutable("spec", "jwtHs256KeyRef"),
        _immutable("spec.persistence", "enabled"),
        _immutable("spec.persistence", "existingClaim"),
        Rule(
            "spec",
            "(has(self.external) && self.external) || (has(self.slurmKeyRef) && "
            "(has(self.jwtKeyRef) || has(self.jwtHs256KeyRef)))",
            "slurmKeyRef and jwtKeyRef must be set unless external is true",
        ),
        Rule(
            "spec",
            f"!has(self.extraConf) || {_CONF_LINES}",
            "every line of extraConf must be Key=Value",
        ),
        Rule(
            "spec",
            "!has(self.external) || !self.external || has(self.externalConfig)",
            "external needs externalConfig",
        ),
    ),
    "NodeSet": (
        _immutable("spec", "controllerRef"),
        Rule(
            "spec.updateStrategy.rollingUpdate",
            "!has(self.maxUnavailable) || (type(self.maxUnavailable) == int ? self.maxUnavailable > 0 : "
            "self.maxUnavailable.matches('^[1-9][0-9]*%$'))",
            "maxUnavailable must be more than 0",
        ),
        Rule(
            "spec.ssh",
            "!self.enabled || (has(self.sssdConfRef.name) && self.sssdConfRef.name != '')",
            "ssh.enabled needs sssdConfRef",
        ),
        Rule(
            "spec",
            "!has(self.extraConf) || self.extraConf.split(' ').all(i, i == '' || i.matches('^[^=]+=.*$'))",
            "every item of extraConf must be Key=Value",
        ),
    ),
    "LoginSet": (
        _immutable("spec", "controllerRef"),
        Rule("spec", "self.sssdConfRef.name != ''", "sssdConfRef.name must be set"),
    ),
    "RestApi": (_immutable("spec", "controllerRef"),),
    "Accounting": (
        _immutable("spec", "slurmKeyRef"),
        _immutable("spec", "jwtKeyRef"),
        Rule(
            "spec",
            "(has(self.external) && self.external) || (has(self.slurmKeyRef) && has(self.storageConfig) && "
            "(has(self.jwtKeyRef) || has(self.jwtHs256KeyRef)))",
            "slurmKeyRef, jwtKeyRef and storageConfig must be set unless external is true",
        ),
        Rule(
            "spec",
            f"!has(self.extraConf) || {_CONF_LINES}",
            "every line of extraConf must be Key=Value",
        ),
    ),
    "Token": (_JWT, _immutable("spec", "jwtKeyRef"), _immutable("spec", "jwtHs256KeyRef")),
}
