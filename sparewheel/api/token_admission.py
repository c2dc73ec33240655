"""Admission policy: of the Secrets in kube-system our controller makes nothing but a token for a host that joins.

RBAC can't say this: who may create Secrets may create any, since a name is not yet known when it is asked.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from sparewheel.api.admission_objects import denying, forbidden, rule
from sparewheel.api.names import BOOTSTRAP_TOKEN_TYPE, BOOTSTRAPPERS, CONTROLLER_ACCOUNT, NAMESPACE

TOKEN_POLICY_NAME: Final = "sparewheel-join-token"  # noqa: S105 - the name of a policy

_GROUP: Final = base64.b64encode(BOOTSTRAPPERS.encode()).decode()
"""As the policy sees a Secret's data."""


def token_admission_manifests(namespace: str = NAMESPACE, account: str = CONTROLLER_ACCOUNT) -> list[dict[str, Any]]:
    """The policy and its binding, for a controller that runs under ``account`` in ``namespace``."""
    user = f"system:serviceaccount:{namespace}:{account}"
    allowed = (
        f"object.type == '{BOOTSTRAP_TOKEN_TYPE}' && has(object.data)"
        " && 'expiration' in object.data"
        f" && object.data['auth-extra-groups'] == '{_GROUP}'"
    )
    return denying(
        TOKEN_POLICY_NAME,
        [rule("", ["secrets"], scope="Namespaced")],
        {"name": "by-the-controller", "expression": f"request.userInfo.username == '{user}'"},
        [
            forbidden(
                f"request.operation == 'CREATE' && request.namespace == 'kube-system' && {allowed}",
                message="the controller makes no Secret but a token that expires, with which a host joins",
            )
        ],
    )
