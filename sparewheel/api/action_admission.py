"""Admission policy: nobody but the controller asks a node's helper for an action. Anybody may take a request back.

RBAC can't say this: whoever may change a Node's status, such as a kubelet or an agent, may change its annotations too.
"""

from __future__ import annotations

from typing import Any, Final

from sparewheel.api.admission_objects import denying, forbidden, rule
from sparewheel.api.names import ANNOTATION_NODE_ACTION, CONTROLLER_ACCOUNT, NAMESPACE

ACTION_POLICY_NAME: Final = "sparewheel-node-action"

_NOW: Final = f"object.metadata.?annotations[?'{ANNOTATION_NODE_ACTION}'].orValue('')"
_BEFORE: Final = f"(request.operation == 'CREATE' ? '' : old{_NOW.replace('object', 'Object', 1)})"


def action_admission_manifests(namespace: str = NAMESPACE, account: str = CONTROLLER_ACCOUNT) -> list[dict[str, Any]]:
    """The policy and its binding, for a controller that runs under ``account`` in ``namespace``."""
    user = f"system:serviceaccount:{namespace}:{account}"
    return denying(
        ACTION_POLICY_NAME,
        [rule("", ["nodes", "nodes/status"])],
        {"name": "asks-for-an-action", "expression": f"{_NOW} != '' && {_NOW} != {_BEFORE}"},
        [
            forbidden(
                f"request.userInfo.username == '{user}'",
                message=f"only the controller may set the annotation {ANNOTATION_NODE_ACTION}; "
                "ask it for a replacement with 'sparewheel replace' instead",
            )
        ],
    )
