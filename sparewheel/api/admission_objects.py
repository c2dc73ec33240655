"""The two objects of an admission policy that denies: what it looks at, when, and what has to hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

VERSION: Final = "admissionregistration.k8s.io/v1"
Rule = dict[str, Any]


def rule(group: str, resources: Sequence[str], *, scope: str = "Cluster", delete: bool = False) -> Rule:
    """Creates and updates of these resources, and their deletes where ``delete``."""
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE", *(["DELETE"] if delete else [])],
        "resources": list(resources),
        "scope": scope,
    }


def forbidden(expression: str, **message: str) -> dict[str, str]:
    """A validation in CEL; ``message`` or ``messageExpression`` is what is answered where it does not hold."""
    return {"expression": expression, **message, "reason": "Forbidden"}


def denying(
    name: str,
    rules: Sequence[Rule],
    condition: dict[str, str],
    validations: Sequence[dict[str, str]],
    variables: Sequence[dict[str, str]] = (),
) -> list[dict[str, Any]]:
    """The policy and its binding. Where the policy can't be evaluated the request is denied."""
    policy = {
        "apiVersion": VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": list(rules)},
            "matchConditions": [condition],
            **({"variables": list(variables)} if variables else {}),
            "validations": list(validations),
        },
    }
    binding = {
        "apiVersion": VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return [policy, binding]
