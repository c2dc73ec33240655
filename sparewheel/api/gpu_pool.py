"""GpuPool: how many GPU nodes users get, how many spares stand by, and where machines come from."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field, NonNegativeInt

from sparewheel.api.base import ApiModel, ApiObject, Time
from sparewheel.api.fault_policy import FaultPolicy
from sparewheel.api.ladder import LadderRule
from sparewheel.api.limits import ReplacementBudget
from sparewheel.api.names import LABEL_APP_INSTANCE, LABEL_APP_NAME, SLURMD_APP_NAME
from sparewheel.api.spare_test import SpareTestRule

POOL_NAME = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
MAX_POOL_NAME = 40
"""A pool's name becomes a label's value, a Slurm partition and part of its nodes' names."""

MAX_GRACE_SECONDS = 120
"""The product's promise: a job gets up to two minutes to checkpoint, never more."""


def same_nodes(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether each node that one of two selectors takes is taken by the other."""
    return one.items() <= other.items() or other.items() <= one.items()


class Driver(StrEnum):
    """Who may drive capacity: ``any`` (Pulumi or the controller, whoever holds the lease) or ``controller`` alone."""

    ANY = "any"
    CONTROLLER = "controller"


class SshEndpoint(ApiModel):
    address: str
    port: int = Field(default=22, ge=1, le=65535)
    user: str = "root"
    host_key: str = Field(min_length=1)
    """OpenSSH public host key (``ssh-ed25519 AAAA...``). Required: an unknown host key is refused."""


class SecretKeyRef(ApiModel):
    name: str
    key: str


class PowerSwitch(ApiModel):
    """How to reach the machines' power: a BMC jump host, reached by SSH. ``{host}`` is the machine's name."""

    ssh: SshEndpoint
    key_ref: SecretKeyRef
    on_command: str = "on {host}"
    off_command: str = "off {host}"
    status_command: str = "status {host}"
    """Must print ``on`` or ``off``."""


class Machine(ApiModel):
    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
    ssh: SshEndpoint
    instance_type: str = ""
    fabric_block: str = ""
    nvlink_domain: str = ""
    """Machines whose GPUs share one NVLink fabric carry the same name."""
    resources: dict[str, NonNegativeInt] = Field(default_factory=dict[str, NonNegativeInt])
    """What the machine has, by a name and in a unit of yours (``cpu: 192``, ``memory-gib: 2000``). A spare takes a
    machine's place only if it has at least as much of each."""


class KubeadmJoin(ApiModel):
    """Machines join by ``kubeadm join`` and leave by ``kubeadm reset``; the cluster was made by kubeadm."""

    ignore_preflight_errors: list[str] = Field(default_factory=list[str])
    """Checks of ``kubeadm join``, by name, whose failure doesn't matter on these machines."""
    cri_socket: str = Field(default="unix:///run/containerd/containerd.sock", pattern=r"^unix:///[^\s'\"]+$")


class MachinesBackend(ApiModel):
    """An inventory of machines reached by SSH."""

    kind: Literal["machines"] = "machines"
    key_ref: SecretKeyRef
    """Secret with the private key for the machines."""
    machines: list[Machine] = Field(min_length=1)
    join_command: str = "host-join --node-name {node} {labels} {taints}"
    leave_command: str = "host-leave"
    kubeadm: KubeadmJoin | None = None
    """In place of the two commands."""
    power: PowerSwitch | None = None
    timeout_seconds: float = Field(default=60.0, gt=0)


class WarmBackend(ApiModel):
    """Spares are Nodes already in the cluster, selected by a label; a spare carries the spare taint."""

    kind: Literal["warm"] = "warm"
    node_selector: dict[str, str] = Field(min_length=1)


CRUSOE_URL = "https://api.cloud.crusoe.ai/v1"
CRUSOE_ID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


class CrusoeAccess(ApiModel):
    key_id: str = Field(pattern=r"^[-A-Za-z0-9_]+$")
    """Id of an access key; it is no secret."""
    key_ref: SecretKeyRef
    """Secret with the access key's secret key."""


class CrusoeReservation(ApiModel):
    organization_id: str = Field(pattern=CRUSOE_ID)
    reservation_id: str = Field(pattern=CRUSOE_ID)
    max_extra: int = Field(default=1, ge=1)
    """How many VMs the node pool may count beyond size and spares."""


class AutoClustersMode(StrEnum):
    """What Crusoe's own healer does in the cluster; the API is asked as well before anything is done."""

    OFF = "off"
    DETECT_ONLY = "detect_only"
    ON = "on"


class BadVm(StrEnum):
    """What becomes of a VM that was replaced: kept, switched off; or deleted, and the node pool makes another."""

    STOP = "stop"
    DELETE = "delete"


class CrusoeBackend(ApiModel):
    """VMs of one node pool of Crusoe Managed Kubernetes; those beyond the pool's size are its spares."""

    kind: Literal["crusoe"] = "crusoe"
    project_id: str = Field(pattern=CRUSOE_ID)
    node_pool_id: str = Field(pattern=CRUSOE_ID)
    access: CrusoeAccess
    auto_clusters: AutoClustersMode = AutoClustersMode.OFF
    bad_vm: BadVm = BadVm.STOP
    reservation: CrusoeReservation | None = None
    """Where no VM of the pool is free, one more is asked for while this reservation has room. Without it: never."""
    node_name: str = Field(default="{name}.{location}.compute.internal", pattern=r"\{name\}")
    """The name under which a VM's kubelet registers."""
    url: str = Field(default=CRUSOE_URL, pattern=r"^https?://[^\s/]+(/[^\s?#]*)?$")
    operation_seconds: float = Field(default=300.0, gt=0)
    """How long one long operation is waited for."""


def can_power_cycle(backend: MachinesBackend | WarmBackend | CrusoeBackend) -> bool:
    """Can the backend reboot a host without the host's help?"""
    return isinstance(backend, CrusoeBackend) or (isinstance(backend, MachinesBackend) and backend.power is not None)


def joins_by_kubeadm(backend: MachinesBackend | WarmBackend | CrusoeBackend) -> bool:
    """Do the backend's hosts join by kubeadm, each with a token made for it?"""
    return isinstance(backend, MachinesBackend) and backend.kubeadm is not None


class NodeSetRef(ApiModel):
    namespace: str
    name: str

    @property
    def worker_labels(self) -> dict[str, str]:
        """What its worker pods are selected by; Slinky's operator labels them so."""
        return {LABEL_APP_NAME: SLURMD_APP_NAME, LABEL_APP_INSTANCE: self.name}


class GpuPoolSpec(ApiModel):
    size: int = Field(ge=0)
    """GPU nodes that take work."""
    spares: int = Field(default=0, ge=0)
    spare_confidence: float = Field(default=0.999, gt=0, lt=1)
    """How sure one wants to be that a spare is free when a node fails; the need of spares is computed with it."""
    gpus_per_node: int = Field(default=8, ge=1)
    hcas_per_node: int = Field(default=0, ge=0)
    """InfiniBand or RoCE adapters that a spare must show before it takes work; 0: not looked at."""
    backend: MachinesBackend | WarmBackend | CrusoeBackend = Field(discriminator="kind")
    node_set_ref: NodeSetRef
    grace_seconds: int = Field(default=MAX_GRACE_SECONDS, ge=0, le=MAX_GRACE_SECONDS)
    driver: Driver = Driver.ANY
    max_concurrent_replacements: int = Field(default=1, ge=1)
    budget: ReplacementBudget = Field(default_factory=ReplacementBudget)
    """More limits on replacing in this pool, beside ``max_concurrent_replacements``."""
    node_lost_seconds: float = Field(default=40.0, gt=0)
    """Silence of agent and kubelet after which a node counts as lost."""
    node_removed_seconds: float = Field(default=60.0, gt=0)
    """How long an active host's Node that somebody removed may come back before the host is replaced."""
    drain_deadline_seconds: int = Field(default=300, ge=0)
    """How long PodDisruptionBudgets are honoured."""
    warm_spares: bool = False
    """True: spares are joined (and tainted) ahead of need, and run a worker behind a Slurm reservation, lifted at the
    strike; False: they wait powered on or off, outside the cluster."""
    spare_test: SpareTestRule | None = None
    """The Slurm test job on each spare; None: none."""
    paused: bool = False
    dry_run: bool = False
    fault_policies: list[FaultPolicy] = Field(default_factory=list[FaultPolicy])
    """What is done about a fault on this pool's nodes; each rule wins over the cluster's."""
    ladder: LadderRule | None = None
    """What is tried on this pool's nodes before they are replaced; None: as in the whole cluster."""
    replace: list[str] = Field(default_factory=list[str])
    """Host names that a person wants replaced; a name stays harmlessly after it was done."""


class DrillResult(ApiModel):
    """How the pool's last scheduled drill went."""

    time: Time
    passed: bool
    remediation: str = ""
    message: str = ""


class GpuPoolStatus(ApiModel):
    observed_generation: int = 0
    active: int = 0
    spare: int = 0
    quarantined: int = 0
    message: str = ""
    updated_time: Time | None = None
    last_drill: DrillResult | None = None
    """Written by the drill itself."""


class GpuPool(ApiObject):
    KIND: ClassVar[str] = "GpuPool"
    PLURAL: ClassVar[str] = "gpupools"
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("gp",)
    COLUMNS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("Size", "integer", ".spec.size"),
        ("Active", "integer", ".status.active"),
        ("Spare", "integer", ".status.spare"),
        ("Quarantined", "integer", ".status.quarantined"),
        ("Drill", "boolean", ".status.lastDrill.passed"),
        ("Message", "string", ".status.message"),
    )

    spec: GpuPoolSpec
    status: GpuPoolStatus = Field(default_factory=GpuPoolStatus)
