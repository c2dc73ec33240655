"""The first objects of a new cluster: what the daemons beside it may read."""

import json

from lab.cluster.shell import run
from lab.paths import Paths

DNS_READS = [
    {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
]


def kubectl(paths: Paths, *arguments: str, stdin: str | None = None, timeout_seconds: float = 60) -> str:
    """kubectl as the administrator."""
    argv = [str(paths.bin / "kubectl"), f"--kubeconfig={paths.kubeconfig}", *arguments]
    return run(argv, stdin=stdin, timeout_seconds=timeout_seconds)


def apply_first_objects(paths: Paths) -> None:
    """Roles of the daemons that run beside the cluster."""
    name = "system:coredns"
    group = "rbac.authorization.k8s.io"
    objects = [
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": DNS_READS},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
        },
    ]
    kubectl(
        paths,
        "apply",
        "--server-side",
        "-f",
        "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
    )
