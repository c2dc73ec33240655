"""Slinky's worker set in a played data centre: a worker for each ordinal, made again elsewhere when its pod is gone."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from sparewheel.api.names import (
    LABEL_APP_INSTANCE,
    LABEL_APP_NAME,
    REASON_REGISTERS,
    SLINKY_NODE_CORDON_REASON,
    SLINKY_POD_HOSTNAME,
    SLURMD_APP_NAME,
    SPARE_WARM,
    TAINT_SPARE,
)
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import NODE, POD, Json
from sparewheel.slurm.memory import MemorySlurm

POOL = "gpu"
SLURM_NAMESPACE = "slurm"
REGISTER_SECONDS = 1.0


@dataclass
class WorkerSet(ABC):
    warm: bool = False
    """Spares are joined ahead of need, with a worker behind a reservation."""
    kube: MemoryKube = field(init=False)
    slurm: MemorySlurm = field(init=False)
    _register_at: dict[str, float] = field(default_factory=dict[str, float])
    _pod_seen: dict[str, str] = field(default_factory=dict[str, str])
    _uids: Any = field(default_factory=lambda: itertools.count(1))

    @property
    @abstractmethod
    def workers(self) -> int:
        """Slurm nodes that there shall be."""

    def worker_nodes(self) -> dict[str, str]:
        """Slurm node name to the Node that its pod runs on."""
        return {
            pod["metadata"]["labels"][SLINKY_POD_HOSTNAME]: pod["spec"].get("nodeName", "") for pod in self._workers()
        }

    def _workers(self) -> list[Json]:
        table = self.kube._objects.get(POD, {})
        return [b for b in table.values() if b["metadata"].get("labels", {}).get(LABEL_APP_NAME) == SLURMD_APP_NAME]

    def look_after_workers(self, now: float) -> None:
        """One look of the operator; a cordon drains."""
        have = self.worker_nodes()
        for ordinal in range(self.workers):
            name = f"{POOL}-{ordinal}"
            if name not in have:
                if self._pod_seen.pop(name, None) and name in self.slurm.node_table:
                    self._terminating(name)
                self._make_worker(name, now)
            elif not have[name]:
                self._schedule_worker(name, now)
            elif name in self._register_at and now >= self._register_at[name]:
                del self._register_at[name]
                self._register(name)
        nodes = self.kube._objects.get(NODE, {})
        for name, node in have.items():
            body = nodes.get(("", node))
            slurm = self.slurm.node_table.get(name)
            if body and slurm and body["spec"].get("unschedulable") and not slurm.drain:
                text = body["metadata"].get("annotations", {}).get(SLINKY_NODE_CORDON_REASON, "cordoned")
                slurm.drain = True
                self.slurm.give_reason(name, slurm.reason or f"slurm-operator: {text}")
            uncordoned = body and not body["spec"].get("unschedulable")
            if uncordoned and slurm and slurm.drain and slurm.reason.startswith("slurm-operator:"):
                slurm.drain = False  # UNDRAIN: one that is DOWN stays so
                self.slurm.give_reason(name, "slurm-operator: Pod was uncordoned" if slurm.down else "")

    def _register(self, name: str) -> None:
        if name in self.slurm.node_table:
            self.slurm.restart_slurmd(name)
        else:
            self.slurm.add_node(name, drain_reason=REASON_REGISTERS if self.warm else "")
        pod = self.kube.peek(POD, name, SLURM_NAMESPACE)
        assert pod is not None
        pod["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.kube.put(POD, pod, SLURM_NAMESPACE)

    def _terminating(self, name: str) -> None:
        """Slinky's preStop."""
        node = self.slurm.node_table[name]
        node.slurmd_up = False
        self.slurm.give_reason(name, "slurm-operator: Pod is terminating")
        if not node.down:
            node.down = True
            self.slurm._strike(name)
        node.left.clear()

    def _make_worker(self, name: str, now: float) -> None:
        labels = {LABEL_APP_NAME: SLURMD_APP_NAME, LABEL_APP_INSTANCE: POOL, SLINKY_POD_HOSTNAME: name}
        uid = f"worker-{next(self._uids)}"
        self.kube.put(POD, {"metadata": {"name": name, "labels": labels, "uid": uid}, "spec": {}}, SLURM_NAMESPACE)
        self._pod_seen[name] = uid
        self._schedule_worker(name, now)

    def _schedule_worker(self, name: str, now: float) -> None:
        taken = set(self.worker_nodes().values())
        for body in self.kube._objects[NODE].values():
            node = body["metadata"]["name"]
            warm = {(TAINT_SPARE, SPARE_WARM)} if self.warm else set[tuple[str, str]]()
            listed: list[Json] = body["spec"].get("taints") or []
            taints = {(str(taint["key"]), str(taint.get("value", ""))) for taint in listed}
            if node in taken or body["spec"].get("unschedulable") or taints - warm:
                continue
            pod = self.kube.peek(POD, name, SLURM_NAMESPACE)
            assert pod is not None
            pod["spec"]["nodeName"] = node
            self.kube.put(POD, pod, SLURM_NAMESPACE)
            self._register_at[name] = now + REGISTER_SECONDS
            return
