"""Back to a healthy platform after faults, the stack left alone: what repair crews and administrators would do.

Jobs are cancelled, records deleted, hosts that were struck or cut off are repaired (power cycle, GPUs, a new kernel
log) and given back: their GpuHost object goes, so the pool finds them in its inventory as spares. Then the pools are
awaited.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from lab.cluster.bootstrap import kubectl
from lab.cluster.lifecycle import DataCentre
from lab.machines.inventory import Host, load_inventory
from lab.objects import hosts, objects, pools
from lab.paths import Paths
from lab.waiting import wait_for
from sparewheel.api.gpu_host import HostPhase
from sparewheel.api.names import LABEL_ROLE, NAMESPACE, ROLE_ACTIVE, TAINT_FAULT

HEALTHY_SECONDS = 180
LOOK_SECONDS = 0.5
RESTARTED = "slurm-operator: Pod is terminating"


class NotHealthyError(Exception):
    """The platform did not become healthy; the message says what is still amiss."""


def restore(paths: Paths) -> None:
    """Everything healthy again; NotHealthyError when it isn't within three minutes. Safe to repeat."""
    cancel_jobs(paths)
    delete_records(paths)
    repair(paths, struck_hosts(paths))
    await_healthy(paths)


def delete_records(paths: Paths) -> None:
    kubectl(paths, "-n", NAMESPACE, "delete", "remediations.sparewheel.dev", "--all", "--wait=true")


def cancel_jobs(paths: Paths) -> None:
    """Every job of every user, ended."""
    slurm(paths, "scancel --me; for u in $(squeue -ah -o %u | sort -u); do scancel -u $u; done")
    wait_for(
        lambda: not slurm(paths, "squeue -ah").strip(),
        HEALTHY_SECONDS,
        lambda: "jobs are still there after scancel: " + slurm(paths, "squeue -a"),
        NotHealthyError,
        look_seconds=LOOK_SECONDS,
    )


def slurm(paths: Paths, command: str) -> str:
    """A command on the Slurm controller, as Slurm's own user."""
    return kubectl(paths, "-n", "slurm", "exec", "slurm-controller-0", "-c", "slurmctld", "--", "sh", "-c", command)


def struck_hosts(paths: Paths) -> list[Host]:
    """Hosts that are off, quarantined, cordoned, or whose agent reports a fault."""
    inventory = load_inventory(paths.state)
    centre = DataCentre(paths)
    phases = {name: host.status.phase for name, host in hosts(paths).items()}
    bad_nodes = {
        node["metadata"]["name"]
        for node in objects(paths, "nodes")
        if node["spec"].get("unschedulable")
        or any(taint["key"] == TAINT_FAULT for taint in node["spec"].get("taints", []))
    }
    faulty = {
        item["metadata"]["name"] for item in objects(paths, "nodehealths") if item.get("status", {}).get("faults")
    }
    return [
        host
        for host in inventory.gpu
        if not centre.power.is_on(host)
        or phases.get(host.name) in {HostPhase.QUARANTINED, HostPhase.GONE, HostPhase.DRAINING}
        or host.name in bad_nodes
        or host.name in faulty
    ]


def repair(paths: Paths, struck: Iterable[Host]) -> None:
    """Power cycle, GPUs, kernel log; out of the cluster; back into the pool's inventory."""
    centre = DataCentre(paths)
    chosen = list(struck)
    if not chosen:
        return
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(centre.repair, chosen))
    names = [host.name for host in chosen]
    kubectl(paths, "delete", "node", "--ignore-not-found", "--wait=true", *names)
    delete_records(paths)  # while its fault was still there, a record that had gone was made again
    kubectl(paths, "-n", NAMESPACE, "delete", "gpuhosts.sparewheel.dev", "--ignore-not-found", "--wait=true", *names)


def await_healthy(paths: Paths) -> None:
    """Every pool at its size with its spares, every Slurm node idle."""
    amiss: list[str] = []

    def healthy() -> bool:
        resume_restarted(paths)
        amiss[:] = _amiss(paths)
        return not amiss

    wait_for(healthy, HEALTHY_SECONDS, lambda: "; ".join(amiss), NotHealthyError, look_seconds=LOOK_SECONDS)


def resume_restarted(paths: Paths) -> None:
    """Slurm nodes whose worker was made again on the same host by a new version of the stack: left DOWN by Slinky."""
    reasons = slurm(paths, "sinfo -N -h -t down -o '%N|%E'").splitlines()
    names = {name for name, _, reason in (line.partition("|") for line in reasons) if RESTARTED in reason}
    if not names:
        return
    pods = json.loads(kubectl(paths, "-n", "slurm", "get", "pods", "-l", "app.kubernetes.io/name=slurmd", "-o", "json"))
    for pod in pods["items"]:
        name, conditions = pod["spec"].get("hostname"), pod["status"].get("conditions", [])
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        if name in names and ready and not pod["metadata"].get("deletionTimestamp"):
            slurm(paths, f"scontrol update nodename={name} state=resume")


def _amiss(paths: Paths) -> list[str]:
    amiss: list[str] = []
    known, members = pools(paths), hosts(paths).values()
    for pool in known:
        phases = [host.status.phase for host in members if host.spec.pool == pool.metadata.name]
        active, spare = phases.count(HostPhase.ACTIVE), phases.count(HostPhase.SPARE)
        if active != pool.spec.size or spare < pool.spec.spares:
            amiss.append(f"pool {pool.metadata.name} has {active} of {pool.spec.size} nodes and {spare} spares")
    wanted = sum(pool.spec.size for pool in known)
    nodes = [n for n in objects(paths, "nodes") if n["metadata"].get("labels", {}).get(LABEL_ROLE) == ROLE_ACTIVE]
    if len(nodes) != wanted:
        amiss.append(f"{len(nodes)} of {wanted} nodes take work")
    states = slurm(paths, "sinfo -N -h -o '%N %T'").splitlines()
    idle = {line.split()[0] for line in states if line.endswith(" idle")}
    standing_by = {line.split()[0] for line in states if line.endswith(" maint")}
    spares = sum(pool.spec.spares for pool in known if pool.spec.warm_spares)
    if len(idle) != wanted or len(standing_by) < spares:
        amiss.append(f"Slurm says {', '.join(sorted(set(states))) or 'no node'}")
    return amiss
