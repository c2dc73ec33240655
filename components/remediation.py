"""Healing: our kinds, who may write them, agents on the GPU nodes, the controller, the policy."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as k8s
from pydantic import TypeAdapter

from components import settings
from components.agents import Agents
from components.drills import Drills
from components.kinds_served import KindsServed
from components.manifest import own_metadata, raw, unprivileged
from components.names import CONTROLLER, off_gpu_nodes
from components.rbac import controller_access
from components.slinky import container
from sparewheel.api.action_admission import action_admission_manifests
from sparewheel.api.admission import admission_manifests
from sparewheel.api.crd import crd_manifests
from sparewheel.api.gpu_pool import SecretKeyRef, joins_by_kubeadm
from sparewheel.api.names import API_VERSION, CONTROLLER_ENVIRONMENT, NAMESPACE, POLICY_NAME
from sparewheel.api.remediation_policy import LemonRule, RemediationPolicySpec, VetoRule
from sparewheel.api.routes import Person, Route
from sparewheel.api.token_admission import token_admission_manifests
from stacks.base import CREDENTIALS_SECRET
from stacks.conditions import condition_rules
from stacks.config import StackConfig
from stacks.faults import fault_policies
from stacks.routes import RouteArea, secret_fields

HEALTH_PORT = 8080


def policy_spec(config: StackConfig) -> RemediationPolicySpec:
    """What the cluster is told about healing."""
    healing = config.remediation
    return RemediationPolicySpec(
        dry_run=healing.dry_run,
        fault_policies=fault_policies(healing.fault_overrides),
        node_conditions=condition_rules(healing.node_conditions),
        routes=[route(one) for one in healing.routes],
        people={
            user.name: Person(email=user.email or "", slack=user.slack or "")
            for user in config.users
            if user.email or user.slack
        },
        max_fenced_nodes=healing.max_fenced_nodes,
        max_fenced_percent=healing.max_fenced_percent,
        budget=healing.budget.spec(),
        fenced_window_seconds=healing.fenced_window_seconds,
        max_attempts=healing.max_attempts,
        attempt_window_seconds=healing.attempt_window_seconds,
        crashed_job_window_seconds=healing.crashed_job_window_seconds,
        lemon=LemonRule(incidents=healing.lemon.incidents, window_seconds=healing.lemon.window_seconds),
        veto=VetoRule(max_seconds=healing.veto.max_seconds, escalate=healing.veto.escalate),
        node_helpers=healing.agent.node_actions,
        ladder=healing.ladder_rule(),
    )


def route(config: RouteArea) -> Route:
    """The route as the cluster knows it: each secret is a key of the Secret that the stack makes."""
    refs = {
        f"{setting.removesuffix('_secret')}_ref": SecretKeyRef(name=CREDENTIALS_SECRET, key=key)
        for setting, key in secret_fields(config).items()
    }
    plain = {key: value for key, value in config.model_dump().items() if not key.endswith("_secret")}
    return TypeAdapter[Route](Route).validate_python({**plain, **refs})


class Remediation(pulumi.ComponentResource):
    """Ready when the controllers have seen the whole cluster."""

    kinds: pulumi.Output[str]
    """Which version of our kinds is served; every object of them is made with it."""

    def __init__(self, name: str, config: StackConfig, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sparewheel:remediation:Remediation", name, None, opts)
        kinds = self._ground(keep_records=config.remediation.keep_records)
        self.kinds = KindsServed("kinds-served", kinds, self).served
        admission = self._admission(kinds, joins_hosts=any(joins_by_kubeadm(pool.backend) for pool in config.pools))
        credentials = k8s.core.v1.Secret(
            CREDENTIALS_SECRET,
            metadata={"name": CREDENTIALS_SECRET, "namespace": NAMESPACE},
            string_data={key: settings.secret(key) for key in sorted({key for _, key in config.credential_names()})},
            opts=pulumi.ResourceOptions(parent=self, depends_on=kinds),
        )
        Agents("agents", config, admission, pulumi.ResourceOptions(parent=self, depends_on=kinds))
        drill = config.remediation.drill
        if drill is not None:
            Drills("drills", config, drill, kinds, pulumi.ResourceOptions(parent=self))
        policy = k8s.apiextensions.CustomResource(
            "policy",
            api_version=API_VERSION,
            kind="RemediationPolicy",
            metadata=raw(own_metadata(POLICY_NAME, self.kinds)),
            spec=policy_spec(config).model_dump(mode="json", by_alias=True, exclude_none=True),
            opts=pulumi.ResourceOptions(parent=self, depends_on=kinds),
        )
        # Without a policy a controller goes by the defaults, which are no dry run.
        self._controller(config, [*kinds, *admission, credentials, policy])
        self.register_outputs({})

    def _ground(self, *, keep_records: bool) -> list[pulumi.Resource]:
        """Our namespace and CRDs. With one of them every record in it goes, so they stay unless the stack says so."""
        kept = pulumi.ResourceOptions(parent=self, retain_on_delete=keep_records)
        namespace = k8s.core.v1.Namespace("namespace", metadata={"name": NAMESPACE}, opts=kept)
        kinds = [
            k8s.apiextensions.CustomResource(
                f"crd-{manifest['spec']['names']['plural']}",
                api_version="apiextensions.k8s.io/v1",
                kind="CustomResourceDefinition",
                metadata={"name": manifest["metadata"]["name"]},
                spec=manifest["spec"],
                opts=kept,
            )
            for manifest in crd_manifests()
        ]
        return [namespace, *kinds]

    def _admission(self, kinds: list[pulumi.Resource], *, joins_hosts: bool) -> list[pulumi.Resource]:
        """An agent writes about its own node only; the controller alone asks for actions on nodes."""
        tokens = token_admission_manifests() if joins_hosts else []
        return [
            k8s.apiextensions.CustomResource(
                f"{manifest['kind'].lower()}-{manifest['metadata']['name']}",
                api_version=manifest["apiVersion"],
                kind=manifest["kind"],
                metadata={"name": manifest["metadata"]["name"]},
                spec=manifest["spec"],
                opts=pulumi.ResourceOptions(parent=self, depends_on=kinds),
            )
            for manifest in (*admission_manifests(), *action_admission_manifests(), *tokens)
        ]

    def _controller(self, config: StackConfig, depends_on: list[pulumi.Resource]) -> None:
        access = controller_access(
            pulumi.ResourceOptions(parent=self, depends_on=depends_on),
            joins_hosts=any(joins_by_kubeadm(pool.backend) for pool in config.pools),
        )
        labels = {"app.kubernetes.io/name": CONTROLLER}
        k8s.apps.v1.Deployment(
            CONTROLLER,
            metadata={"name": CONTROLLER, "namespace": NAMESPACE, "labels": labels},
            spec=raw(
                {
                    "replicas": config.remediation.replicas,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": controller_pod(config, labels)},
                }
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*access, *depends_on]),
        )


def controller_pod(config: StackConfig, labels: dict[str, str]) -> dict[str, Any]:
    """Off the nodes it heals, its replicas on different hosts where there is more than one."""
    apart = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "serviceAccountName": CONTROLLER,
        "priorityClassName": "system-cluster-critical",
        "affinity": {
            **off_gpu_nodes(),
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": apart}]
            },
        },
        "containers": [
            container(
                config.images,
                config.images.sparewheel,
                name="controller",
                command=["python", "-m", "sparewheel.remediation.controller", f"--health-port={HEALTH_PORT}"],
                readinessProbe={"httpGet": {"path": "/healthz", "port": HEALTH_PORT}, "periodSeconds": 2},
                env=[
                    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    # asyncssh refuses to connect without a local user name, and this uid has none
                    {"name": "LOGNAME", "value": "sparewheel"},
                    *({"name": name, "value": value} for name, value in CONTROLLER_ENVIRONMENT.items()),
                ],
                # With 10,000 nodes it had taken 514 MB at most (docs/measured.md).
                resources={"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
                securityContext=unprivileged(),
                volumeMounts=[{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - a volume of its own
            )
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
