"""Back to a healthy platform after faults, the stack left alone: what repair crews and administrators would do.

Jobs are cancelled, records deleted, hosts that were struck or cut off are repaired (power cycle, GPUs, a new kernel
log) and given back: their GpuHost object goes, so the pool finds them in its inventory as spares. Then the pools are
awaited.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lab.cluster.bootstrap import kubectl
from lab.cluster.lifecycle import DataCentre
from lab.machines.inventory import Host, load_inventory
from lab.paths import Paths
from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import LABEL_ROLE, NAMESPACE, ROLE_ACTIVE, TAINT_FAULT

HEALTHY_SECONDS = 180
LOOK_SECONDS = 0.5


class NotHealthyError(Exception):
    """The platform did not become healthy; the message says what is still amiss."""


def restore(paths: Paths) -> None:
    """Everything healthy again; NotHealthyError when it isn't within three minutes. Safe to repeat."""
    cancel_jobs(paths)
    kubectl(paths, "-n", NAMESPACE, "delete", "remediations.sparewheel.dev", "--all", "--wait=true")
    repair(paths, struck_hosts(paths))
    await_healthy(paths)


def cancel_jobs(paths: Paths) -> None:
    """Every job of every user, ended."""
    slurm(paths, "scancel --me; for u in $(squeue -ah -o %u | sort -u); do scancel -u $u; done")
    deadline = time.monotonic() + HEALTHY_SECONDS
    while slurm(paths, "squeue -ah").strip():
        if time.monotonic() > deadline:
            raise NotHealthyError("jobs are still there after scancel: " + slurm(paths, "squeue -a"))
        time.sleep(LOOK_SECONDS)


def slurm(paths: Paths, command: str) -> str:
    """A command on the Slurm controller, as Slurm's own user."""
    return kubectl(paths, "-n", "slurm", "exec", "slurm-controller-0", "-c", "slurmctld", "--", "sh", "-c", command)


def struck_hosts(paths: Paths) -> list[Host]:
    """Hosts that are off, quarantined, cordoned, or whose agent reports a fault."""
    inventory = load_inventory(paths.state)
    centre = DataCentre(paths)
    phases = {host.spec.host: host.status.phase for host in gpu_hosts(paths)}
    bad_nodes = {
        node["metadata"]["name"]
        for node in _items(paths, "nodes")
        if node["spec"].get("unschedulable")
        or any(taint["key"] == TAINT_FAULT for taint in node["spec"].get("taints", []))
    }
    faulty = {item["metadata"]["name"] for item in _items(paths, "nodehealths") if item.get("status", {}).get("faults")}
    return [
        host
        for host in inventory.gpu
        if not centre.power.is_on(host)
        or phases.get(host.name) in {HostPhase.QUARANTINED, HostPhase.GONE, HostPhase.DRAINING}
        or host.name in bad_nodes
        or host.name in faulty
    ]


def repair(paths: Paths, hosts: Iterable[Host]) -> None:
    """Power cycle, GPUs, kernel log; out of the cluster; back into the pool's inventory."""
    centre = DataCentre(paths)
    chosen = list(hosts)
    if not chosen:
        return
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(centre.repair, chosen))
    names = [host.name for host in chosen]
    kubectl(paths, "delete", "node", "--ignore-not-found", "--wait=true", *names)
    kubectl(paths, "-n", NAMESPACE, "delete", "gpuhosts.sparewheel.dev", "--ignore-not-found", "--wait=true", *names)


def await_healthy(paths: Paths) -> None:
    """Every pool at its size with its spares, every Slurm node idle."""
    deadline = time.monotonic() + HEALTHY_SECONDS
    while True:
        amiss = _amiss(paths)
        if not amiss:
            return
        if time.monotonic() > deadline:
            raise NotHealthyError(f"after {HEALTHY_SECONDS} s: {'; '.join(amiss)}")
        time.sleep(LOOK_SECONDS)


def _amiss(paths: Paths) -> list[str]:
    amiss: list[str] = []
    pools = [GpuPool.from_wire(item) for item in _items(paths, "gpupools")]
    hosts = gpu_hosts(paths)
    for pool in pools:
        phases = [host.status.phase for host in hosts if host.spec.pool == pool.metadata.name]
        active, spare = phases.count(HostPhase.ACTIVE), phases.count(HostPhase.SPARE)
        if active != pool.spec.size or spare < pool.spec.spares:
            amiss.append(f"pool {pool.metadata.name} has {active} of {pool.spec.size} nodes and {spare} spares")
    wanted = sum(pool.spec.size for pool in pools)
    nodes = [n for n in _items(paths, "nodes") if n["metadata"].get("labels", {}).get(LABEL_ROLE) == ROLE_ACTIVE]
    if len(nodes) != wanted:
        amiss.append(f"{len(nodes)} of {wanted} nodes take work")
    states = slurm(paths, "sinfo -N -h -o '%N %T'").splitlines()
    idle = {line.split()[0] for line in states if line.endswith(" idle")}
    if len(idle) != wanted:
        amiss.append(f"Slurm says {', '.join(sorted(set(states))) or 'no node'}")
    return amiss


def gpu_hosts(paths: Paths) -> list[GpuHost]:
    return [GpuHost.from_wire(item) for item in _items(paths, "gpuhosts")]


def _items(paths: Paths, kind: str) -> list[dict[str, Any]]:
    where = [] if kind in {"nodes", "nodehealths"} else ["-n", NAMESPACE]
    name = kind if kind == "nodes" else f"{kind}.sparewheel.dev"
    return json.loads(kubectl(paths, *where, "get", name, "-o", "json"))["items"]
