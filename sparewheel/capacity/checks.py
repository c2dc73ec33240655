"""Is a host that joined fit to take work; is a node that leaves idle? Read afresh; what isn't known is waited for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Final, cast

from sparewheel.api.enums import Action
from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import GPU_RESOURCE, LABEL_APP_NAME, SLINKY_POD_PROTECT, SLURMD_APP_NAME
from sparewheel.api.node_health import NodeHealth, NodeHealthStatus
from sparewheel.capacity.nodes import allocatable_of, boot_id_of, find_node, is_ready
from sparewheel.capacity.port import Check, CheckResult
from sparewheel.kube.port import NODE_HEALTH, POD, Json, Kube, NotFoundError

FRESH_BEATS: Final = 3
"""A report older than this many heartbeats is no report."""
EVALUATE_SECONDS: Final = 60.0
"""A host that joined gets this long to load its drivers; "not evaluated" after that is a failed check."""
SERIOUS: Final = frozenset({Action.RESET_GPU, Action.REBOOT, Action.REPLACE})
BUSY_CONDITIONS: Final = frozenset({"SlurmNodeStateAllocated", "SlurmNodeStateMixed", "SlurmNodeStateCompleting"})
DRAINED_CONDITION: Final = "SlurmNodeStateDrain"

Idle = Callable[[Kube, GpuPool, str], Awaitable[str]]
"""Of a node: empty when no job is on it, else what is waited for. Raises rather than guess."""


def waits(why: str) -> CheckResult:
    return CheckResult(Check.WAIT, why)


def refuses(why: str) -> CheckResult:
    return CheckResult(Check.REFUSED, why)


async def check_host(
    kube: Kube, pool: GpuPool, host: GpuHost, now: datetime, *, require_health: bool, repaired: bool = False
) -> CheckResult:
    """Another boot than the refused one, Ready, its GPUs allocatable, and a fresh report of all of them, healthy.

    ``repaired``: a person vouches that the refused boot was repaired without a reboot; all the rest must still hold.
    """
    name = host.status.node_name or host.spec.host
    node = await find_node(kube, name)
    if node is None:
        return waits(f"Node {name} to register")
    boot = boot_id_of(node)
    if boot and boot == host.status.refused_boot_id and not repaired:
        return refuses(f"it is the boot {boot} that was quarantined; repair or reboot it first")
    if not is_ready(node):
        return waits(f"Node {name} to be Ready")
    wanted = pool.spec.gpus_per_node
    if require_health:
        result = await _check_health(kube, name, boot, pool, now, patient=_just_joined(host, now))
        if result.check is not Check.PASSED:
            return result
    allocatable = allocatable_of(node, GPU_RESOURCE)
    if allocatable < wanted:
        return waits(f"Node {name} to offer {wanted} {GPU_RESOURCE} (now {allocatable})")
    return CheckResult(Check.PASSED)


def _just_joined(host: GpuHost, now: datetime) -> bool:
    since = host.status.since
    return since is None or (now - since).total_seconds() <= EVALUATE_SECONDS


async def _check_health(
    kube: Kube, name: str, boot: str, pool: GpuPool, now: datetime, *, patient: bool
) -> CheckResult:
    """``patient``: devices that the agent can't count yet are waited for; later that is a failed check."""
    try:
        health = NodeHealth.from_wire(await kube.get(NODE_HEALTH, name)).status
    except NotFoundError:
        return waits(f"the first report of the agent on {name}")
    fresh = health.heartbeat_time is not None and health.boot_id == boot and not _is_old(health, now)
    if not fresh:
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


async def trouble_of(kube: Kube, host: GpuHost, now: datetime) -> str:
    """What is known to be wrong with a host that stands by; empty when nothing is. No report is no trouble yet.

    A spare outside the cluster reports nothing: its join and its checks say how it is.
    """
    if host.status.node_name is None:
        return ""
    node = await find_node(kube, host.status.node_name)
    if node is None:
        return ""
    try:
        health = NodeHealth.from_wire(await kube.get(NODE_HEALTH, host.status.node_name)).status
    except NotFoundError:
        return ""
    if health.boot_id != boot_id_of(node) or _is_old(health, now):
        return ""
    serious = [fault for fault in health.faults if fault.action in SERIOUS]
    if serious:
        return f"it reports {serious[0].code} on {serious[0].device or 'the node'}"
    seen, expected = health.gpus.seen, health.gpus.expected
    return f"it has {seen} of {expected} GPUs" if seen is not None and seen < expected else ""


def _is_old(health: NodeHealthStatus, now: datetime) -> bool:
    if health.heartbeat_time is None:
        return True
    return (now - health.heartbeat_time).total_seconds() > FRESH_BEATS * health.heartbeat_interval_seconds


async def slurm_idle(kube: Kube, pool: GpuPool, node: str) -> str:
    """Slinky's word for it: the worker pod on the node is drained in Slurm and runs nothing, or there is no worker.

    Its operator drains a cordoned node by itself and shows Slurm's state as conditions of the pod.
    """
    pod = (await workers_by_node(kube, pool)).get(node)
    if pod is None:
        return ""
    labels = cast("dict[str, str]", pod["metadata"].get("labels") or {})
    conditions = cast("list[dict[str, Any]]", pod.get("status", {}).get("conditions") or [])
    true = {item["type"] for item in conditions if item.get("status") == "True"}
    if labels.get(SLINKY_POD_PROTECT) == "true" or true & BUSY_CONDITIONS:
        return f"jobs on {node} to end"
    if DRAINED_CONDITION not in true:
        return f"Slurm to drain {node}"
    return ""


async def workers_by_node(kube: Kube, pool: GpuPool) -> dict[str, Json]:
    """The pool's worker pods by the Node that they are on."""
    selector = {LABEL_APP_NAME: SLURMD_APP_NAME}
    listing = await kube.list(POD, pool.spec.node_set_ref.namespace, label_selector=selector)
    placed = [pod for pod in listing.items if pod.get("spec", {}).get("nodeName")]
    return {str(pod["spec"]["nodeName"]): pod for pod in placed}
