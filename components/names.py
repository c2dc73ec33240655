"""Names of what the stack makes: each written once."""

from __future__ import annotations

from typing import Any, Final

from sparewheel.api.names import AGENT_APP_NAME, CONTROLLER_ACCOUNT, LABEL_POOL, SLINKY_GROUP, SLINKY_VERSION

SLURM_NAMESPACE: Final = "slurm"
OPERATOR_NAMESPACE: Final = "slinky"

SLURM: Final = "slurm"
"""Controller, RestApi and Accounting."""
LOGIN: Final = "login"
TOKEN: Final = "sparewheel"  # noqa: S105 - a name
TOKEN_USER: Final = "slurm"  # noqa: S105 - a name
SLINKY_API: Final = f"{SLINKY_GROUP}/{SLINKY_VERSION}"

AUTH_SECRET: Final = "slurm-auth"  # noqa: S105 - a name
SLURM_KEY: Final = "slurm.key"
JWT_KEY: Final = "jwt_hs256.key"
SSSD_SECRET: Final = "sssd"  # noqa: S105 - a name
SSSD_KEY: Final = "sssd.conf"
EXTRA_CONFIG: Final = "slurm-extra"
DATABASE: Final = "mariadb"
DATABASE_SECRET: Final = "mariadb-password"  # noqa: S105 - a name
USERS_CONFIG: Final = "slurm-users"
USER_KEYS_CONFIG: Final = "slurm-user-keys"

HOME_CLAIM: Final = "slurm-home"
STATE_CLAIM: Final = "slurm-state"
DATABASE_CLAIM: Final = "slurm-database"

AGENT: Final = AGENT_APP_NAME
CONTROLLER: Final = CONTROLLER_ACCOUNT
DRILL: Final = "sparewheel-drill"

SLURM_ID: Final = 401
"""uid and gid of user slurm in Slinky's images."""


def off_gpu_nodes() -> dict[str, Any]:
    """Affinity of everything that must outlive a GPU node: it keeps off the nodes of every pool."""
    term = {"matchExpressions": [{"key": LABEL_POOL, "operator": "DoesNotExist"}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
