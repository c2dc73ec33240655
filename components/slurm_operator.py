"""Slinky's operator and its CRDs, from a folder of manifests or from its charts."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from components.names import OPERATOR_NAMESPACE
from stacks.charts import CertManager, ChartsOperator
from stacks.platform import ManifestsOperator
from stacks.platform import Operator as OperatorConfig

CERT_MANAGER = "cert-manager"


class SlurmOperator(pulumi.ComponentResource):
    """Ready when the operator's Deployment is."""

    def __init__(self, name: str, config: OperatorConfig, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sparewheel:platform:SlurmOperator", name, None, opts)
        if isinstance(config, ManifestsOperator):
            self._manifests(name, config)
        else:
            self._charts(name, config)
        self.register_outputs({})

    def _manifests(self, name: str, config: ManifestsOperator) -> None:
        """CRDs in the folder's ``crds``, all else in the folder itself."""
        folder = config.path.rstrip("/")
        crds = k8s.yaml.v2.ConfigGroup(
            f"{name}-crds", files=[f"{folder}/crds/*.yaml"], opts=pulumi.ResourceOptions(parent=self)
        )
        k8s.yaml.v2.ConfigGroup(
            name, files=[f"{folder}/*.yaml"], opts=pulumi.ResourceOptions(parent=self, depends_on=[crds])
        )

    def _charts(self, name: str, config: ChartsOperator) -> None:
        namespace = k8s.core.v1.Namespace(
            name, metadata={"name": OPERATOR_NAMESPACE}, opts=pulumi.ResourceOptions(parent=self)
        )
        crds = k8s.helm.v4.Chart(
            f"{name}-crds",
            chart=f"{config.repository}/slurm-operator-crds",
            version=config.version,
            namespace=OPERATOR_NAMESPACE,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[namespace]),
        )
        certificates = [self._cert_manager(config.cert_manager)] if config.cert_manager else []
        k8s.helm.v4.Chart(
            name,
            chart=f"{config.repository}/slurm-operator",
            version=config.version,
            namespace=OPERATOR_NAMESPACE,
            values=config.values,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[crds, *certificates]),
        )

    def _cert_manager(self, config: CertManager) -> pulumi.Resource:
        namespace = k8s.core.v1.Namespace(
            CERT_MANAGER, metadata={"name": CERT_MANAGER}, opts=pulumi.ResourceOptions(parent=self)
        )
        return k8s.helm.v4.Chart(
            CERT_MANAGER,
            chart=f"{config.repository}/cert-manager",
            version=config.version,
            namespace=CERT_MANAGER,
            # Its check after the installation is a hook of Helm's, which would be made here with everything else.
            values={"crds": {"enabled": True}, "startupapicheck": {"enabled": False}, **config.values},
            opts=pulumi.ResourceOptions(parent=self, depends_on=[namespace]),
        )
