"""Admission policy: an agent's token writes about the node that it is bound to, and about no other.

RBAC can't say this: all agents share one service account. A pod's token carries the name of its node (since Kubernetes
1.32), and the API server shows it in ``userInfo.extra``.
"""

from __future__ import annotations

from typing import Any, Final

from sparewheel.api.admission_objects import denying, forbidden, rule
from sparewheel.api.names import AGENT_ACCOUNT, GROUP, NAMESPACE
from sparewheel.api.node_health import NodeHealth

POLICY_NAME: Final = "sparewheel-agent-own-node"
NODE_NAME_EXTRA: Final = "authentication.kubernetes.io/node-name"

_STATUS_ONLY = "request.resource.resource != 'nodes' || request.?subResource.orValue('') == 'status'"
_TARGET = "(request.operation == 'DELETE' ? oldObject : object).metadata.name"


def admission_manifests(namespace: str = NAMESPACE, account: str = AGENT_ACCOUNT) -> list[dict[str, Any]]:
    """The policy and its binding, for agents that run under ``account`` in ``namespace``."""
    user, health = f"system:serviceaccount:{namespace}:{account}", NodeHealth.PLURAL
    return denying(
        POLICY_NAME,
        [
            rule(GROUP, [health, f"{health}/status"], delete=True),
            rule("", ["nodes", "nodes/status"], delete=True),
        ],
        {"name": "by-an-agent", "expression": f"request.userInfo.username == '{user}'"},
        [
            forbidden(
                "variables.node != ''",
                message="the agent's token is not bound to a node; use the token that its pod was given",
            ),
            forbidden(
                "variables.node == '' || variables.target == variables.node",
                messageExpression="'the agent of node ' + variables.node + ' writes nothing about node ' "
                "+ variables.target",
            ),
            forbidden(_STATUS_ONLY, message="an agent writes a Node's status only"),
        ],
        [
            {"name": "node", "expression": f"request.userInfo.extra[?'{NODE_NAME_EXTRA}'][0].orValue('')"},
            {"name": "target", "expression": _TARGET},
        ],
    )
