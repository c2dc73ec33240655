"""Names that the real operator gives: API group, labels, annotations, object names, paths, ports, ids.

Source: the operator's ``api/v1beta1/well_known.go`` and key files, and what it rendered on a real cluster.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "slinky.slurm.net"
VERSION: Final = "v1beta1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KINDS: Final = {
    "Controller": "controllers",
    "NodeSet": "nodesets",
    "LoginSet": "loginsets",
    "RestApi": "restapis",
    "Accounting": "accountings",
    "Token": "tokens",
}
FIELD_MANAGER: Final = "slurm-operator"

_NODESET: Final = f"nodeset.{GROUP}"

# Annotations
POD_CORDON: Final = f"{_NODESET}/pod-cordon"
POD_DELETION_COST: Final = f"{_NODESET}/pod-deletion-cost"
POD_DEADLINE: Final = f"{_NODESET}/pod-deadline"
NODE_CORDON_REASON: Final = f"{_NODESET}/node-cordon-reason"
TOPOLOGY_SPEC: Final = f"topology.{GROUP}/spec"
DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
SLURM_KEY_HASH: Final = f"{GROUP}/slurm-key-hash"
JWT_KEY_HASH: Final = f"{GROUP}/jwt-key-hash"
SLURM_CONFIG_HASH: Final = f"{GROUP}/slurm-config-hash"
SLURMDBD_CONF_HASH: Final = f"{GROUP}/slurmdbd-conf-hash"
SSH_HOST_KEYS_HASH: Final = f"{GROUP}/ssh-host-keys-hash"
SSHD_CONF_HASH: Final = f"{GROUP}/sshd-conf-hash"
SSSD_CONF_HASH: Final = f"{GROUP}/sssd-conf-hash"

# Labels
APP_NAME: Final = "app.kubernetes.io/name"
APP_INSTANCE: Final = "app.kubernetes.io/instance"
APP_COMPONENT: Final = "app.kubernetes.io/component"
CLUSTER: Final = f"{GROUP}/cluster"
CONTROLLER_ACTIVE: Final = f"controller.{GROUP}/active"
CONTROLLER_HASH: Final = "controller.kubernetes.io/hash"
POD_NAME: Final = f"{_NODESET}/pod-name"
POD_INDEX: Final = f"{_NODESET}/pod-index"
POD_HOSTNAME: Final = f"{_NODESET}/pod-hostname"
POD_PROTECT: Final = f"{_NODESET}/pod-protect"
SCALING_MODE: Final = f"{_NODESET}/scaling-mode"
WORKER_TOLERATION: Final = f"{_NODESET}/worker"

# Ports
SLURMCTLD_PORT: Final = 6817
SLURMD_PORT: Final = 6818
SLURMDBD_PORT: Final = 6819
SLURMRESTD_PORT: Final = 6820
SSH_PORT: Final = 22

SLURM_UID: Final = 401
NOBODY_UID: Final = 65534

REASON_PREFIX: Final = "slurm-operator:"
"""Starts every Slurm node reason that the operator wrote; any other reason is somebody else's."""

SLURM_STATE_CONDITION: Final = "SlurmNodeState"
"""Pod condition types are this followed by the Slurm state."""

CLUSTER_DOMAIN: Final = "cluster.local"


def controller_pod(name: str) -> str:
    """The one slurmctld pod of a Controller."""
    return f"{name}-controller-0"


def controller_service(name: str) -> str:
    """Service that daemons and clients of slurmctld use, and the StatefulSet's name."""
    return f"{name}-controller"


def controller_internal_service(name: str) -> str:
    """Headless Service that gives each slurmctld pod a name of its own."""
    return f"{name}-controller-internal"


def config_map(name: str) -> str:
    """ConfigMap with slurm.conf (and cgroup.conf unless the user brings one)."""
    return f"{name}-config"


def worker_service(controller: str) -> str:
    """Headless Service over every slurmd pod of a cluster."""
    return f"slurm-workers-{controller}"


def worker_pdb(controller: str) -> str:
    """Disruption budget over the busy slurmd pods of a cluster."""
    return f"slurm-workers-pdb-{controller}"


def worker_search_domain(controller: str, namespace: str) -> str:
    """DNS domain in which Slurm node names resolve."""
    return f"{worker_service(controller)}.{namespace}.svc.{CLUSTER_DOMAIN}"


def accounting(name: str) -> str:
    """StatefulSet, Service and config Secret of an Accounting."""
    return f"{name}-accounting"


def restapi(name: str) -> str:
    """Deployment and Service of a RestApi."""
    return f"{name}-restapi"


def ssh_config(name: str) -> str:
    """ConfigMap with sshd_config of a LoginSet or NodeSet."""
    return f"{name}-ssh-config"


def ssh_host_keys(name: str) -> str:
    """Secret with a LoginSet's host keys, made once."""
    return f"{name}-ssh-host-keys"
