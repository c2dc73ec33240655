"""Admission policy: an agent's token writes about the node that it is bound to, and about no other.

RBAC can't say this: all agents share one service account. A pod's token carries the name of its node (since Kubernetes
1.32), and the API server shows it in ``userInfo.extra``.
"""

from __future__ import annotations

from typing import Any, Final

from sparewheel.api.names import AGENT_ACCOUNT, GROUP, NAMESPACE
from sparewheel.api.node_health import NodeHealth

POLICY_NAME: Final = "sparewheel-agent-own-node"
NODE_NAME_EXTRA: Final = "authentication.kubernetes.io/node-name"

_STATUS_ONLY = "request.resource.resource != 'nodes' || request.?subResource.orValue('') == 'status'"
_TARGET = "(request.operation == 'DELETE' ? oldObject : object).metadata.name"


def admission_manifests(namespace: str = NAMESPACE, account: str = AGENT_ACCOUNT) -> list[dict[str, Any]]:
    """The policy and its binding, for agents that run under ``account`` in ``namespace``."""
    return [_policy(f"system:serviceaccount:{namespace}:{account}"), _binding()]


def _policy(user: str) -> dict[str, Any]:
    health = NodeHealth.PLURAL
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": POLICY_NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    _rule(GROUP, [health, f"{health}/status"]),
                    _rule("", ["nodes", "nodes/status"]),
                ]
            },
            "matchConditions": [{"name": "by-an-agent", "expression": f"request.userInfo.username == '{user}'"}],
            "variables": [
                {"name": "node", "expression": f"request.userInfo.extra[?'{NODE_NAME_EXTRA}'][0].orValue('')"},
                {"name": "target", "expression": _TARGET},
            ],
            "validations": [
                {
                    "expression": "variables.node != ''",
                    "message": "the agent's token is not bound to a node; use the token that its pod was given",
                    "reason": "Forbidden",
                },
                {
                    "expression": "variables.node == '' || variables.target == variables.node",
                    "messageExpression": "'the agent of node ' + variables.node + ' writes nothing about node ' "
                    "+ variables.target",
                    "reason": "Forbidden",
                },
                {
                    "expression": _STATUS_ONLY,
                    "message": "an agent writes a Node's status only",
                    "reason": "Forbidden",
                },
            ],
        },
    }


def _rule(group: str, resources: list[str]) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": resources,
        "scope": "Cluster",
    }


def _binding() -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": POLICY_NAME},
        "spec": {"policyName": POLICY_NAME, "validationActions": ["Deny"]},
    }
