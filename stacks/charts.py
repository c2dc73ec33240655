"""Slinky's operator from its own Helm charts: versions, values, and cert-manager, which its webhook needs."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal, Self, cast

from pydantic import Field, model_validator

from stacks.base import Area

OLDEST: Final = (1, 0)
"""The first release that serves the API that the platform speaks, slinky.slurm.net/v1beta1."""
NEEDS_SLURM_26_05: Final = (1, 3)
WATCHED: Final = "slurm"
"""The namespace of Slurm's objects."""
KNOWN: Final = ("operator", "webhook", "certManager", "crds", "propagatedNodeConditions", "imagePullPolicy",
                "imagePullSecrets", "nameOverride", "fullnameOverride", "namespaceOverride")  # fmt: skip
"""Names of the chart's values at the top; others may come with a release, so only what looks mistyped is refused."""

Version = Annotated[str, Field(pattern=r"^v?[0-9]+\.[0-9]+\.[0-9]+([-+][-+.0-9A-Za-z]+)?$")]


class CertManager(Area):
    """cert-manager, made by the stack from its own chart."""

    version: Version = Field(description="version of the chart, such as v1.19.1")
    repository: str = Field(default="oci://quay.io/jetstack/charts", pattern=r"^\S+$", description="where the chart is")
    values: dict[str, Any] = Field(default_factory=dict[str, Any], description="values of the chart")


class ChartsOperator(Area):
    """Slinky's operator and CRDs from its own Helm charts."""

    kind: Literal["charts"]
    version: Version = Field(description="version of both charts, such as 1.2.1")
    repository: str = Field(
        default="oci://ghcr.io/slinkyproject/charts", pattern=r"^\S+$", description="where the charts are"
    )
    values: dict[str, Any] = Field(default_factory=dict[str, Any], description="values of chart slurm-operator")
    cert_manager: CertManager | None = Field(
        default=None, description="cert-manager is made by the stack, too; without it the cluster has it already"
    )

    @property
    def has_webhook(self) -> bool:
        """Its certificate comes from cert-manager."""
        return _part(self.values, "webhook").get("enabled") is not False

    @model_validator(mode="after")
    def _values(self) -> Self:
        msg = _wrong_version(self.version) or _wrong_values(self.values)
        if msg:
            raise ValueError(msg)
        return self


def release(version: str) -> tuple[int, int]:
    """1.2.1 -> (1, 2)."""
    major, minor, *_ = version.removeprefix("v").split(".")
    return int(major), int(minor)


def wrong_slurm(operator: ChartsOperator, slurm: str) -> str:
    """Whether the operator knows the release of Slurm; empty when it does."""
    year, month = (int(part) for part in slurm.split(".")[:2])
    if release(operator.version) >= NEEDS_SLURM_26_05 and (year, month) < (26, 5):
        return f"operator.version: {operator.version} needs Slurm 26.05 or newer, and slurm.version is {slurm}"
    return ""


def _wrong_version(version: str) -> str:
    if release(version) < OLDEST:
        return f"version {version} serves an older API than slinky.slurm.net/v1beta1; use 1.0.0 or newer"
    return ""


def _wrong_values(values: Mapping[str, Any]) -> str:
    for name in values:
        close = get_close_matches(name, KNOWN, n=1, cutoff=0.8)
        if name not in KNOWN and close:
            return f"values.{name}: there is no such value; did you mean {close[0]}?"
    if _part(values, "certManager").get("enabled") is False:
        return "values.certManager.enabled is false, so each up would make a new authority; install cert-manager"
    if _part(values, "crds").get("enabled") is True:
        return "values.crds.enabled is true, but the CRDs are a chart of their own, which is made first; leave it out"
    watched = _part(values, "operator").get("namespaces")
    if isinstance(watched, str):
        watched = watched.split(",")
    if isinstance(watched, list) and watched and WATCHED not in watched:
        return f"values.operator.namespaces leaves out {WATCHED}, where Slurm's objects are; add it"
    return ""


def _part(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}
