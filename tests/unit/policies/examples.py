"""Resources as the engine and Kubernetes write them, one helper each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from policies.model import Given, Resource

NOW = datetime(2026, 6, 1, tzinfo=UTC)
GIVEN = Given(now=NOW)
DIGEST = "registry.example/slurmd@sha256:" + "0123456789abcdef" * 4
CONF = (
    "KillWait=120\nReturnToService=1\nJobRequeue=1\nGresTypes=gpu\nAccountingStorageTRES=gres/gpu\n"
    "JobSubmitPlugins=lua\nSlurmctldParameters=enable_configless,enable_expedited_requeue\n"
    "SchedulerParameters=requeue_delay=1,sched_interval=2"
)
SSHD = "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin no\n"


def made(kind: str, group: str, name: str, **fields: Any) -> Resource:
    """One Kubernetes object."""
    body = {"metadata": {"name": name, **fields.pop("metadata", {})}, **fields}
    return Resource(f"kubernetes:{group}:{kind}", name, body)


def pool(name: str = "gpu", *, protect: bool = True, **spec: Any) -> Resource:
    """A pool with one node and one spare."""
    whole = {"size": 2, "spares": 1, "gpusPerNode": 8, "graceSeconds": 120, "maxConcurrentReplacements": 1, **spec}
    body = {"metadata": {"name": name}, "spec": whole}
    return Resource("kubernetes:sparewheel.dev/v1alpha1:GpuPool", name, body, protect=protect)


def policy(**spec: Any) -> Resource:
    """The cluster's remediation policy."""
    return made("RemediationPolicy", "sparewheel.dev/v1alpha1", "default", spec={"maxFencedNodes": 1, **spec})


def controller(conf: str = CONF) -> Resource:
    """Slurm's controller as Slinky takes it."""
    return made("Controller", "slinky.slurm.net/v1beta1", "slurm", spec={"extraConf": conf})


def config_map(name: str, **data: str) -> Resource:
    return made("ConfigMap", "core/v1", name, data=data)


def workers(**spec: Any) -> Resource:
    """A pool's NodeSet."""
    limits = {"nvidia.com/gpu": 8, "cpu": "1", "memory": "1Gi"}
    whole = {
        "extraConf": "Gres=gpu:8",
        "slurmd": {"resources": {"limits": limits}},
        "template": {"spec": {"terminationGracePeriodSeconds": 150}},
        **spec,
    }
    return made("NodeSet", "slinky.slurm.net/v1beta1", "gpu", spec=whole)


def role(kind: str = "Role", name: str = "r", **rule: Any) -> Resource:
    full = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], **rule}
    return made(kind, "rbac.authorization.k8s.io/v1", name, rules=[full])


def binding(role_name: str, subject: str) -> Resource:
    return made(
        "ClusterRoleBinding",
        "rbac.authorization.k8s.io/v1",
        "b",
        roleRef={"name": role_name},
        subjects=[{"kind": "Group", "name": subject}],
    )


def pod(**spec: Any) -> Resource:
    return made("Pod", "core/v1", "p", spec={"containers": [], **spec})


def deployment(replicas: int = 2, labels: dict[str, str] | None = None) -> Resource:
    template: dict[str, Any] = {"metadata": {"labels": labels or {"app": "a"}}, "spec": {"containers": []}}
    return made("Deployment", "apps/v1", "d", spec={"replicas": replicas, "template": template})


def budget(**spec: Any) -> Resource:
    return made("PodDisruptionBudget", "policy/v1", "b", spec={"selector": {"matchLabels": {"app": "a"}}, **spec})


def service(**spec: Any) -> Resource:
    return made("Service", "core/v1", "login-ssh", spec=spec)


def login(sshd: str = SSHD, **spec: Any) -> Resource:
    return made("LoginSet", "slinky.slurm.net/v1beta1", "login", spec={"extraSshdConfig": sshd, **spec})


def agents(expected: int = 8) -> Resource:
    labels = {"app.kubernetes.io/name": "sparewheel-agent", "sparewheel.dev/pool": "gpu"}
    container = {"name": "agent", "command": ["python", f"--expected-gpus={expected}"]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return made("DaemonSet", "apps/v1", "sparewheel-agent-gpu", spec={"template": template})


def drill(outcome: str = "Healed", seen: str = "2026-05-20T10:00:00Z", *, is_drill: bool = True) -> Resource:
    return made(
        "Remediation",
        "sparewheel.dev/v1alpha1",
        "r-1",
        spec={"pool": "gpu", "fault": {"code": "XID 79", "drill": is_drill, "firstSeen": seen}},
        status={"outcome": outcome},
    )


def stack(**outputs: Any) -> Resource:
    return Resource("pulumi:pulumi:Stack", "sparewheel-test", {}, outputs=outputs)
