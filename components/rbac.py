"""What our agent and controller may do: every resource and verb by name, secrets one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pulumi
import pulumi_kubernetes as k8s

from components.manifest import raw
from components.names import AGENT, CONTROLLER, DRILL, SLURM_NAMESPACE, TOKEN, TOKEN_USER
from sparewheel.api.names import GROUP, NAMESPACE
from stacks.base import CREDENTIALS_SECRET

READ: Final = ["get", "list", "watch"]


def rule(group: str, resources: list[str], verbs: list[str], names: list[str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return {**found, "resourceNames": names} if names else found


AGENT_CLUSTER: Final = [
    # An admission policy of ours binds these to the agent's own node.
    rule(GROUP, ["nodehealths"], ["get", "create", "patch"]),
    rule(GROUP, ["nodehealths/status"], ["patch"]),
    rule("", ["nodes"], ["get"]),
    rule("", ["nodes/status"], ["patch"]),
]
# Events about a Node live in the namespace default.
EVENTS: Final = [rule("", ["events"], ["create", "patch"])]

CONTROLLER_CLUSTER: Final = [
    rule("", ["nodes"], [*READ, "patch", "delete"]),
    rule(GROUP, ["nodehealths"], READ),
    # Pods of any namespace may run on a GPU node and must leave it.
    rule("", ["pods"], [*READ, "delete"]),
    rule("", ["pods/eviction"], ["create"]),
    rule("policy", ["poddisruptionbudgets"], ["list"]),  # a previewed healing names those in its way
]
CONTROLLER_EVENTS: Final = [rule("events.k8s.io", ["events"], ["create"])]
CONTROLLER_OWN: Final = [
    *CONTROLLER_EVENTS,
    rule(GROUP, ["gpupools", "remediationpolicies"], READ),
    rule(GROUP, ["gpupools/status", "remediationpolicies/status"], ["patch"]),
    rule(GROUP, ["gpuhosts"], [*READ, "create", "patch", "delete"]),
    rule(GROUP, ["remediations"], [*READ, "create"]),
    rule(GROUP, ["gpuhosts/status", "remediations/status"], ["update"]),
    rule("coordination.k8s.io", ["leases"], ["get", "create", "update"]),
    rule("", ["secrets"], ["get"], [CREDENTIALS_SECRET]),
]
CONTROLLER_KUBELETS: Final = [
    # A kubelet renews its Lease every ten seconds: the quickest proof that it lives.
    rule("coordination.k8s.io", ["leases"], ["get"]),
]
CONTROLLER_SLURM: Final = [
    rule("", ["secrets"], ["get"], [f"{TOKEN}-jwt-{TOKEN_USER}"]),
]
# For hosts that join by kubeadm. An admission policy of ours lets it create nothing but their tokens.
CONTROLLER_TOKENS: Final = [rule("", ["secrets"], ["create"])]
CONTROLLER_CLUSTER_INFO: Final = [rule("", ["configmaps"], ["get"], ["cluster-info"])]

DRILL_CLUSTER: Final = [
    rule("", ["nodes"], ["get", "list"]),
    rule(GROUP, ["nodehealths"], ["list"]),
]
DRILL_OWN: Final = [
    rule(GROUP, ["gpupools", "gpuhosts", "remediations"], ["list"]),
    rule(GROUP, ["gpupools/status"], ["patch"]),
    rule("", ["pods"], ["get", "list"]),
    # Into the agents' pods, which are root on their hosts. A WebSocket is asked for by GET; newer servers want create.
    rule("", ["pods/exec"], ["get", "create"]),
]


def _service_account(name: str, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    return k8s.core.v1.ServiceAccount(name, metadata={"name": name, "namespace": NAMESPACE}, opts=opts)


def _subject(name: str) -> list[dict[str, str]]:
    return [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}]


def _cluster(account: str, rules: list[dict[str, Any]], opts: pulumi.ResourceOptions) -> Sequence[pulumi.Resource]:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account}
    return [
        k8s.rbac.v1.ClusterRole(account, metadata={"name": account}, rules=raw(rules), opts=opts),
        k8s.rbac.v1.ClusterRoleBinding(
            account, metadata={"name": account}, role_ref=raw(role), subjects=raw(_subject(account)), opts=opts
        ),
    ]


def _namespaced(
    account: str, namespace: str, rules: list[dict[str, Any]], opts: pulumi.ResourceOptions
) -> Sequence[pulumi.Resource]:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account}
    return [
        k8s.rbac.v1.Role(
            f"{account}-{namespace}", metadata={"name": account, "namespace": namespace}, rules=raw(rules), opts=opts
        ),
        k8s.rbac.v1.RoleBinding(
            f"{account}-{namespace}",
            metadata={"name": account, "namespace": namespace},
            role_ref=raw(role),
            subjects=raw(_subject(account)),
            opts=opts,
        ),
    ]


def agent_access(opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """Service account of the agents and its rights."""
    account = _service_account(AGENT, opts)
    return [account, *_cluster(AGENT, AGENT_CLUSTER, opts), *_namespaced(AGENT, "default", EVENTS, opts)]


def drill_access(opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """Service account of the scheduled drills and its rights."""
    return [
        _service_account(DRILL, opts),
        *_cluster(DRILL, DRILL_CLUSTER, opts),
        *_namespaced(DRILL, NAMESPACE, DRILL_OWN, opts),
    ]


def controller_access(opts: pulumi.ResourceOptions, *, joins_hosts: bool) -> list[pulumi.Resource]:
    """Service account of the controller and its rights; ``joins_hosts``: it makes tokens for hosts that join."""
    more = {"kube-system": CONTROLLER_TOKENS, "kube-public": CONTROLLER_CLUSTER_INFO} if joins_hosts else {}
    return [
        _service_account(CONTROLLER, opts),
        *_cluster(CONTROLLER, CONTROLLER_CLUSTER, opts),
        *_namespaced(CONTROLLER, NAMESPACE, CONTROLLER_OWN, opts),
        *_namespaced(CONTROLLER, "default", CONTROLLER_EVENTS, opts),
        *_namespaced(CONTROLLER, SLURM_NAMESPACE, CONTROLLER_SLURM, opts),
        *_namespaced(CONTROLLER, "kube-node-lease", CONTROLLER_KUBELETS, opts),
        *(one for namespace, rules in more.items() for one in _namespaced(CONTROLLER, namespace, rules, opts)),
    ]
