"""GPU pools. What a backend looks like is written once, in ``sparewheel.api.gpu_pool``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from sparewheel.api.gpu_pool import (
    MAX_POOL_NAME,
    POOL_NAME,
    CrusoeBackend,
    Driver,
    MachinesBackend,
    WarmBackend,
    same_nodes,
)
from sparewheel.api.names import GROUP, LABEL_VETO
from sparewheel.api.spare_test import MAX_TEST_SECONDS, TEST_SECONDS
from stacks.base import LABEL_KEY, LABEL_VALUE, Area, HostName, LabelKey, LabelValue, with_credential_refs
from stacks.budget import Budget
from stacks.crusoe import NodePool, with_node_pool, wrong_with
from stacks.explain import shown
from stacks.faults import FaultRule, FaultRules
from stacks.ladder import Ladder
from stacks.machines import wrong_machines
from stacks.quantities import Bytes, Cpus
from stacks.slurm_time import LongestRun

OPERATORS_LABELS = ("app.kubernetes.io/", "slinky.slurm.net/")

PoolName = Annotated[str, Field(pattern=POOL_NAME, max_length=MAX_POOL_NAME)]
"""Also the Slurm partition and the first part of its nodes' names, so it starts with a letter and leaves room."""


ExtendedResource = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
]
"""A resource that a device plugin gives, such as the network operator's."""


class Partition(Area):
    """The Slurm partition of a pool; it has the pool's name."""

    default: bool = False
    max_time: LongestRun = "UNLIMITED"

    def config(self) -> str:
        """The tail of the partition's line in slurm.conf."""
        return f"Default={'YES' if self.default else 'NO'} MaxTime={self.max_time} State=UP"


class SpareTestConfig(Area):
    """A short Slurm job on the spare alone. Warm spares are tested while they stand by: no healing waits for it."""

    enabled: bool = True
    cold: bool = Field(
        default=False, description="also spares that join only when they are needed; a healing then takes this longer"
    )
    command: str = Field(
        default="",
        max_length=10_000,
        pattern=r"^$|\S",
        description="shell text, exit code 0 is a pass; without it GPUs are counted",
    )
    timeout_seconds: int = Field(default=TEST_SECONDS, ge=5, le=MAX_TEST_SECONDS)


class Pool(Area):
    """Machines that users get together, with spares."""

    name: PoolName = Field(description="name of the pool and of its Slurm partition")
    size: int = Field(ge=0, le=1000, description="GPU nodes that take work")
    spares: int = Field(default=0, ge=0, le=1000, description="machines that wait to take a bad one's place")
    spare_confidence: float = Field(
        default=0.999, ge=0.5, le=0.999999, description="how sure a free spare shall be when a node fails"
    )
    gpus_per_node: int = Field(default=8, ge=1, le=64)
    hcas_per_node: int = Field(default=0, ge=0, le=64, description="HCAs a spare must show before it takes work")
    backend: MachinesBackend | WarmBackend | CrusoeBackend = Field(
        discriminator="kind", description="where machines come from: kind machines, warm or crusoe"
    )
    node_pool: NodePool | None = Field(
        default=None,
        description="node pool of Crusoe's that is made; else backend.node_pool_id names one",
    )
    cpus: Cpus | None = Field(default=None, description="CPUs of a worker; without it a worker has no CPU limit")
    memory: Bytes | None = Field(default=None, description="memory of a worker, such as 1500Gi")
    partition: Partition = Partition()
    driver: Driver = Driver.ANY
    warm_spares: bool | None = Field(
        default=None,
        description="true (default): spares run a worker, behind a Slurm reservation; false: they join when needed",
    )
    spare_test: SpareTestConfig = SpareTestConfig()
    replace: list[HostName] = Field(default_factory=list[str], description="hosts that you want replaced")
    max_concurrent_replacements: int = Field(default=1, ge=1)
    budget: Budget = Field(default_factory=Budget, description="more limits on replacing in this pool")
    node_lost_seconds: float = Field(default=40.0, gt=0)
    node_removed_seconds: float = Field(
        default=60.0, gt=0, description="how long a Node that somebody removed may come back before it is replaced"
    )
    drain_deadline_seconds: int = Field(default=300, ge=0)
    deadline_seconds: int = Field(default=1800, ge=10, description="how long an up waits for this pool's hosts")
    protect: bool = Field(default=False, description="a destroy refuses to release the pool's machines")
    dry_run: bool = False
    fault_overrides: FaultRules = Field(
        default_factory=dict[str, FaultRule], description="on this pool's nodes, by fault code; wins over the stack's"
    )
    ladder: Ladder | None = Field(
        default=None, description="what is tried on this pool's nodes before they are replaced; wins over the stack's"
    )
    node_selector: dict[LabelKey, LabelValue] = Field(
        default_factory=dict[str, str], description="more labels a worker asks for"
    )
    worker_resources: dict[ExtendedResource, Annotated[int, Field(ge=1, le=1000)]] = Field(
        default_factory=dict[str, int],
        description="what a worker asks for besides GPUs, CPUs and memory, such as rdma/hca_shared_devices: 1",
    )
    worker_labels: dict[LabelKey, LabelValue] = Field(
        default_factory=dict[str, str], description="labels on the worker pods"
    )

    @property
    def keeps_warm_spares(self) -> bool:
        """Unless the stack says so a pool without spares is as one with cold ones: its workers register in service."""
        return self.spares > 0 if self.warm_spares is None else self.warm_spares

    @model_validator(mode="before")
    @classmethod
    def _node_pool(cls, raw: object) -> object:
        return with_node_pool(raw)

    @field_validator("backend", mode="before")
    @classmethod
    def _credentials(cls, raw: Any) -> Any:
        for path in (("key_ref",), ("power", "key_ref"), ("access", "key_ref")):
            raw = with_credential_refs(raw, *path)
        return raw

    @field_validator("worker_labels")
    @classmethod
    def _no_veto(cls, labels: dict[str, str]) -> dict[str, str]:
        if LABEL_VETO in labels:
            msg = f"{LABEL_VETO} on a pool's own workers would veto every replacement; put it on other pods only"
            raise ValueError(msg)
        return labels

    @field_validator("worker_labels", "node_selector")
    @classmethod
    def _not_ours(cls, labels: dict[str, str]) -> dict[str, str]:
        ours = [key for key in labels if key.startswith(f"{GROUP}/")]
        if ours:
            msg = f"{ours[0]} is the platform's own label and says which hosts serve the pool; use a label of yours"
            raise ValueError(msg)
        return labels

    @field_validator("worker_labels")
    @classmethod
    def _not_the_operators(cls, labels: dict[str, str]) -> dict[str, str]:
        for key in labels:
            if key.startswith(OPERATORS_LABELS):
                msg = f"{key} is set by Slinky's operator, which finds its workers by it; use a label of yours"
                raise ValueError(msg)
        return labels

    @field_validator("name")
    @classmethod
    def _a_name_slurm_takes(cls, name: str) -> str:
        if name in ("default", "all"):
            msg = f"{name} means something else in slurm.conf ('every partition' or 'every node'); choose another name"
            raise ValueError(msg)
        return name

    @field_validator("backend")
    @classmethod
    def _reachable(
        cls, backend: MachinesBackend | WarmBackend | CrusoeBackend
    ) -> MachinesBackend | WarmBackend | CrusoeBackend:
        if isinstance(backend, CrusoeBackend):
            if wrong_with(backend):
                raise ValueError(wrong_with(backend))
            return backend
        if isinstance(backend, WarmBackend):
            for key, value in backend.node_selector.items():
                if not re.fullmatch(LABEL_KEY, key) or not re.fullmatch(LABEL_VALUE, value):
                    label = f"{shown(key)}: {shown(value)}"
                    msg = f"node_selector {label} is no label that a node can have; see 'kubectl get nodes'"
                    raise ValueError(msg)
            return backend
        wrong = wrong_machines(backend)
        if wrong:
            raise ValueError(wrong)
        return backend

    @model_validator(mode="after")
    def _enough_machines(self) -> Self:
        if not isinstance(self.backend, MachinesBackend):
            return self
        names = [machine.name for machine in self.backend.machines]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"machine {twice[0]} is listed twice; each machine is listed once"
            raise ValueError(msg)
        if self.size + self.spares > len(names):
            msg = (
                f"size {self.size} and {self.spares} spare(s) need {self.size + self.spares} machines, "
                f"but backend.machines lists {len(names)}; add machines or ask for fewer"
            )
            raise ValueError(msg)
        unknown = sorted(set(self.replace) - set(names))
        if unknown:
            msg = f"replace names {unknown[0]}, which isn't one of backend.machines; take it off the list"
            raise ValueError(msg)
        return self


def shared_hosts(pools: Sequence[Pool]) -> str:
    """Why two pools would take the same host from each other, or an empty string. A host is in one pool."""
    names: dict[str, str] = {}
    ends: dict[tuple[str, int], str] = {}
    warm: list[tuple[str, dict[str, str]]] = []
    node_pools: dict[str, str] = {}
    for pool in pools:
        if isinstance(pool.backend, WarmBackend):
            selector = pool.backend.node_selector
            for other, known in warm:
                if same_nodes(known, selector):
                    return f"pools: {other} and {pool.name} select the same nodes; give them selectors that tell apart"
            warm.append((pool.name, selector))
            continue
        if isinstance(pool.backend, CrusoeBackend):
            if pool.node_pool is not None:
                continue
            other = node_pools.setdefault(pool.backend.node_pool_id, pool.name)
            if other != pool.name:
                return f"pools: {other} and {pool.name} have one node_pool_id; a node pool of Crusoe's is in one pool"
            continue
        for machine in pool.backend.machines:
            other = names.setdefault(machine.name, pool.name)
            if other != pool.name:
                return f"pools: machine {machine.name} is in {other} and in {pool.name}; a machine is in one pool"
            end = (machine.ssh.address.lower().rstrip("."), machine.ssh.port)
            first = ends.setdefault(end, machine.name)
            if first != machine.name:
                return f"pools: machines {first} and {machine.name} have one address, {end[0]}; each has its own"
    return ""
