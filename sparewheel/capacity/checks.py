"""Is a host that joined fit to take work; is a node that leaves idle? Read afresh; what isn't known is waited for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from sparewheel.api.enums import Action
from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import (
    GPU_RESOURCE,
    LABEL_APP_NAME,
    SLINKY_POD_PROTECT,
    SLURMD_APP_NAME,
)
from sparewheel.api.node_health import NodeHealth, NodeHealthStatus
from sparewheel.capacity.heard import Reports
from sparewheel.capacity.nodes import allocatable_of, boot_id_of, find_node, is_ready
from sparewheel.capacity.port import Check, CheckResult
from sparewheel.kube.port import NODE_HEALTH, POD, Json, Kube, NotFoundError
from sparewheel.remediation.decide.leftovers import UNTOLD, left_over

EVALUATE_SECONDS: Final = 60.0
"""A host that joined gets this long to load its drivers, and processes of earlier jobs to end; after that "not
evaluated", or a process that is seen, is a failed check."""
SERIOUS: Final = frozenset({Action.RESET_GPU, Action.REBOOT, Action.REPLACE})
BUSY_CONDITIONS: Final = frozenset({"SlurmNodeStateAllocated", "SlurmNodeStateMixed", "SlurmNodeStateCompleting"})
DRAINED_CONDITION: Final = "SlurmNodeStateDrain"

Idle = Callable[[Kube, GpuPool, str], Awaitable[str]]
"""Of a node: empty when no job is on it, else what is waited for. Raises rather than guess."""


def waits(why: str) -> CheckResult:
    return CheckResult(Check.WAIT, why)


def refuses(why: str) -> CheckResult:
    return CheckResult(Check.REFUSED, why)


@dataclass(frozen=True, slots=True)
class Now:
    """When a check is made: by the clock on the wall, and by our monotonic one."""

    wall: datetime
    monotonic_seconds: float


async def check_host(
    kube: Kube,
    pool: GpuPool,
    host: GpuHost,
    now: Now,
    reports: Reports | None,
    *,
    repaired: bool = False,
    takes_jobs: bool = False,
) -> CheckResult:
    """Another boot than the refused one, Ready, its GPUs allocatable, a fresh report of all of them, healthy, and of no
    job process.

    ``reports``: None where no agent's report is asked for. It is read at each look, so that its change is seen.
    ``repaired``: a person vouches that the refused boot was repaired without a reboot; all the rest must still hold.
    ``takes_jobs``: jobs may run there by now.
    """
    name = host.status.node_name or host.spec.host
    report = await _report(kube, name, reports, now.monotonic_seconds) if reports is not None else None
    node = await find_node(kube, name)
    if node is None:
        return waits(f"Node {name} to register")
    boot = boot_id_of(node)
    if boot and boot == host.status.refused_boot_id and not repaired:
        return refuses(
            f"it is the boot {boot} that was quarantined; repair or reboot it first (power off and on does), "
            "or release it with --repaired if it was repaired without a reboot"
        )
    if not is_ready(node):
        return waits(f"Node {name} to be Ready")
    wanted = pool.spec.gpus_per_node
    if reports is not None:
        result = _check_health(report, name, boot, pool, patient=_just_joined(host, now.wall))
        if result.check is not Check.PASSED:
            return result
        left = left_over(host, report.health, now.wall) if report is not None and not takes_jobs else ""
        if left:
            waiting = _just_joined(host, now.wall) or left == UNTOLD
            return waits(f"the job processes on {name} to end: {left}") if waiting else refuses(f"{name}: {left}")
    allocatable = allocatable_of(node, GPU_RESOURCE)
    if allocatable < wanted:
        return waits(f"Node {name} to offer {wanted} {GPU_RESOURCE} (now {allocatable})")
    return CheckResult(Check.PASSED)


def _just_joined(host: GpuHost, now: datetime) -> bool:
    since = host.status.since
    return since is None or (now - since).total_seconds() <= EVALUATE_SECONDS


@dataclass(frozen=True, slots=True)
class _Report:
    health: NodeHealthStatus
    fresh: bool


async def _report(kube: Kube, name: str, reports: Reports, monotonic_seconds: float) -> _Report | None:
    """None: there is none."""
    try:
        health = NodeHealth.from_wire(await kube.get(NODE_HEALTH, name)).status
    except NotFoundError:
        reports.look(name, None, monotonic_seconds)
        return None
    reports.look(name, health, monotonic_seconds)
    return _Report(health, health.heartbeat_time is not None and reports.fresh(name, health, monotonic_seconds))


def _check_health(report: _Report | None, name: str, boot: str, pool: GpuPool, *, patient: bool) -> CheckResult:
    """``patient``: devices that the agent can't count yet are waited for; later that is a failed check."""
    if report is None:
        return waits(f"the first report of the agent on {name}")
    health = report.health
    if not report.fresh or health.boot_id != boot:
        return waits(f"a fresh report of the agent on {name}")
    serious = [fault for fault in health.faults if fault.action in SERIOUS]
    if serious:
        return refuses(f"{name} reports {serious[0].code} on {serious[0].device or 'the node'}")
    counts = (("GPUs", health.gpus.seen, pool.spec.gpus_per_node), ("HCAs", health.hcas.seen, pool.spec.hcas_per_node))
    for what, seen, wanted in counts:
        if wanted and seen is None and patient:
            return waits(f"the agent on {name} to count its {what}")
        if wanted and seen is None:
            return refuses(f"the {what} of {name} could not be evaluated ({health.message or 'no reason given'})")
        if seen is not None and seen < wanted:
            return refuses(f"{name} has {seen} of {wanted} {what}")
    return CheckResult(Check.PASSED)


async def trouble_of(kube: Kube, host: GpuHost, monotonic_seconds: float, reports: Reports) -> str:
    """What is known to be wrong with a host that stands by; empty when nothing is. No fresh report is no trouble yet.

    A spare outside the cluster reports nothing: its join and its checks say how it is.
    """
    if host.status.node_name is None:
        return ""
    node = await find_node(kube, host.status.node_name)
    if node is None:
        return ""
    report = await _report(kube, host.status.node_name, reports, monotonic_seconds)
    if report is None or not report.fresh or report.health.boot_id != boot_id_of(node):
        return ""
    health = report.health
    serious = [fault for fault in health.faults if fault.action in SERIOUS]
    if serious:
        return f"it reports {serious[0].code} on {serious[0].device or 'the node'}"
    seen, expected = health.gpus.seen, health.gpus.expected
    return f"it has {seen} of {expected} GPUs" if seen is not None and seen < expected else ""


async def slurm_idle(kube: Kube, pool: GpuPool, node: str) -> str:
    """Slinky's word for it: the worker pod on the node is drained in Slurm and runs nothing, or there is no worker.

    Its operator drains a cordoned node by itself and shows Slurm's state as conditions of the pod.
    """
    workers, there = {LABEL_APP_NAME: SLURMD_APP_NAME}, f"spec.nodeName={node}"
    pods = await kube.list(POD, pool.spec.node_set_ref.namespace, workers, there)
    return next(filter(None, (_busy(pod, node) for pod in pods.items)), "")


def _busy(pod: Json, node: str) -> str:
    labels = cast("dict[str, str]", pod["metadata"].get("labels") or {})
    conditions = cast("list[dict[str, Any]]", pod.get("status", {}).get("conditions") or [])
    true = {item["type"] for item in conditions if item.get("status") == "True"}
    if labels.get(SLINKY_POD_PROTECT) == "true" or true & BUSY_CONDITIONS:
        return f"jobs on {node} to end"
    if DRAINED_CONDITION not in true:
        return f"Slurm to drain {node}"
    return ""


async def nodes_with_workers(kube: Kube, pool: GpuPool) -> set[str]:
    """Nodes that the pool's own worker pods are on."""
    ref = pool.spec.node_set_ref
    listing = await kube.list(POD, ref.namespace, ref.worker_labels, keep=_place)
    return {pod["node"] for pod in listing.items if pod["node"]}


def _place(pod: Json) -> Json:
    return {"node": pod.get("spec", {}).get("nodeName")}
