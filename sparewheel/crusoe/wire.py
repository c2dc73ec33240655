"""The few fields of Crusoe's answers that are read. Unknown ones are ignored; a missing one never says "none".

What a decision would read as "nothing there" is required; other missing fields are empty.
"""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

import msgspec

T = TypeVar("T")
SUCCEEDED: Final = "SUCCEEDED"
FAILED: Final = "FAILED"
STATE_PREFIX: Final = "STATE_"
RUNNING: Final = "RUNNING"
OFF_STATES: Final = frozenset({"STOPPED", "SHUTOFF"})
GONE_STATES: Final = frozenset({"DELETING", "DELETED"})
DETECT_ONLY: Final = frozenset({"OFF", "DETECT_ONLY"})
"""Actions of AutoClusters that change nothing."""


def bare(state: str) -> str:
    """``STATE_RUNNING``, ``running`` -> ``RUNNING``: both forms are seen."""
    return state.strip().upper().removeprefix(STATE_PREFIX)


class Page(msgspec.Struct, Generic[T]):
    """VMs and a node pool's VMs name the next page differently. Without ``items`` it is no list, which is not none."""

    items: list[T] | msgspec.UnsetType | None = msgspec.UNSET
    next_page_token: str | None = None
    next_token: str | None = None


class Operation(msgspec.Struct):
    operation_id: str = ""
    state: str = ""
    metadata: Any = None
    result: Any = None

    @property
    def status(self) -> str:
        return bare(self.state)


class Started(msgspec.Struct):
    """Answer of an asynchronous call; what is done at once may come without an operation."""

    operation: Operation | None = None


class Vm(msgspec.Struct):
    id: str
    name: str
    state: str = ""
    type: str = ""
    location: str = ""
    pod_id: str | None = None
    nvlink_domain_id: str | None = None
    reservation_id: str | None = None

    @property
    def status(self) -> str:
        return bare(self.state)


class NodeTaint(msgspec.Struct, omit_defaults=True):
    key: str
    effect: str
    value: str | None = None


class NodePool(msgspec.Struct):
    id: str
    cluster_id: str
    count: int
    name: str = ""
    instance_ids: list[str] | None = None
    state: str = ""
    type: str = ""
    node_labels: dict[str, str] | None = None
    node_taints: list[NodeTaint] | None = None
    reservation_id: str | None = None
    updated_at: str = ""

    @property
    def status(self) -> str:
        return bare(self.state)


class Cluster(msgspec.Struct):
    id: str
    name: str = ""
    state: str = ""
    location: str = ""
    version: str = ""
    add_ons: list[str] | None = None
    subnet_id: str = ""

    @property
    def status(self) -> str:
        return bare(self.state)


class Credentials(msgspec.Struct):
    """How to reach a cluster; ``kube_config`` is the newer form, the rest raw PEM. All of it is secret."""

    cluster_name: str = ""
    cluster_address: str = ""
    cluster_ca_certificate: str = ""
    user_name: str = ""
    user_client_certificate: str = ""
    user_client_key: str = ""
    kube_config: str | None = None

    def __repr__(self) -> str:
        return f"Credentials of cluster {self.cluster_name}"


class IssueAction(msgspec.Struct):
    issue_name: str = ""
    default_action: str = ""
    user_override: str | None = None
    effective_action: str = ""


class AutoClusters(msgspec.Struct):
    """A cluster's AutoClusters configuration. All its fields are optional in the API: an answer without the list of
    issues doesn't say whether it acts, which is not "it doesn't"."""

    remediation_configs: list[IssueAction]
    fallback_to_project_reservations: bool | None = None

    @property
    def acting(self) -> list[str]:
        """Issues for which Crusoe itself changes nodes. An action that is not known is one that may."""
        return sorted(
            row.issue_name
            for row in self.remediation_configs
            if row.effective_action.strip().upper() not in DETECT_ONLY
        )


class Reservation(msgspec.Struct):
    id: str
    quantity: int = 0
    used_quantity: int = 0

    @property
    def free(self) -> int:
        return max(0, self.quantity - self.used_quantity)


def shortfall(operation: Operation | None) -> str:
    """What a node pool's operation says of VMs that it could not make; SUCCEEDED may be partial. None says nothing."""
    result: Any = operation.result if operation is not None else None
    details: Any = result.get("details") if isinstance(result, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return str(details.get("error") or "") if isinstance(details, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
