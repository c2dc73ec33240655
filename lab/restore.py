"""Back to a healthy platform after faults, the stack left alone: what repair crews and administrators would do.

Jobs are cancelled (and killed where they do not end), records deleted, hosts that were struck or cut off are repaired
(power cycle, GPUs, a new kernel log) and given back: their GpuHost object goes, so the pool finds them in its inventory
as spares. Then the pools are awaited.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lab.cluster.bootstrap import kubectl
from lab.cluster.lifecycle import DataCentre
from lab.cluster.shell import CommandError
from lab.machines.cgroups import HostGroups
from lab.machines.inject import read_process
from lab.machines.inventory import Host, load_inventory
from lab.objects import hosts, objects, pools
from lab.paths import Paths
from lab.supervisor.identity import send_signal
from lab.toolchain.progress import note, step
from lab.waiting import wait_for
from sparewheel.api.gpu_host import HostPhase
from sparewheel.api.names import LABEL_ROLE, NAMESPACE, ROLE_ACTIVE, TAINT_FAULT

HEALTHY_SECONDS = 180
LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 10.0
"""For a cancelled job to end by itself; one that hangs takes until Slurm's KillWait is over, or longer."""
QUEUE = "squeue -ah -o '%A|%u|%T|%N'"
CANCEL = "(scancel --me; for u in $(squeue -ah -o %u | sort -u); do scancel -u $u; done) >/dev/null"
NO_CONTAINER = "container not found"
"""kubectl's word for a command that was never begun."""
RESTARTED = "slurm-operator: Pod is terminating"


class NotHealthyError(Exception):
    """The platform did not become healthy; the message says what is still amiss."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job that is not gone; ``nodes`` are Slurm's names."""

    number: int
    user: str
    state: str
    nodes: str

    def __str__(self) -> str:
        return f"{self.number} of {self.user} is {self.state}{f' on {self.nodes}' if self.nodes else ''}"


def restore(paths: Paths) -> None:
    """Everything healthy again; NotHealthyError when it isn't within three minutes. Safe to repeat."""
    cancel_jobs(paths)
    delete_records(paths)
    repair(paths, struck_hosts(paths))
    await_healthy(paths)


def delete_records(paths: Paths) -> None:
    kubectl(paths, "-n", NAMESPACE, "delete", "remediations.sparewheel.dev", "--all", "--wait=true")


def cancel_jobs(
    paths: Paths, *, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Every job of every user, ended. What is left of one after ten seconds is killed on its hosts."""
    jobs = queue(paths, cancel=True)
    if not jobs:
        return
    kill_at = clock() + PATIENCE_SECONDS

    def gone() -> bool:
        nonlocal jobs, kill_at
        due = clock() >= kill_at
        jobs = queue(paths, cancel=due)  # also one that was queued again meanwhile
        if jobs and due:
            kill_at = clock() + PATIENCE_SECONDS
            killed = kill_processes(paths, {job.number for job in jobs})
            note(f"  killed, since its job did not end: {', '.join(killed) or 'no process is left'}")
            if not killed:
                settle(paths, {job.nodes for job in jobs if job.state == "COMPLETING" and job.nodes})
        return not jobs

    with step(f"jobs cancelled and gone: {len(jobs)}", 10):
        wait_for(
            gone,
            HEALTHY_SECONDS,
            lambda: f"not gone after scancel: job {', job '.join(map(str, jobs))}",
            NotHealthyError,
            tell=_tell,
            look_seconds=LOOK_SECONDS,
            clock=clock,
            sleep=sleep,
        )


def queue(paths: Paths, *, cancel: bool) -> list[Job]:
    """The jobs that are not gone, cancelled first where that is wished."""
    rows = (line.split("|") for line in slurm(paths, f"{CANCEL}; {QUEUE}" if cancel else QUEUE).splitlines())
    return [Job(int(number), user, state, nodes) for number, user, state, nodes in rows]


def settle(paths: Paths, nodes: Collection[str]) -> None:
    """slurmctld waits for a word of these nodes that does not come, such as after a slurmd's "Duplicate jobid": a node
    that goes DOWN has no job, and RESUME brings it back. Nodes as Slurm prints them, so also ``gpu-[0-1]``.
    """
    for name in sorted(nodes):
        note(f"  node {name} set DOWN and back: its job is done, and Slurm has not heard of it")
        slurm(
            paths,
            f"scontrol update nodename={name} state=down reason=reset && scontrol update nodename={name} state=resume",
        )


def kill_processes(paths: Paths, jobs: Collection[int]) -> list[str]:
    """SIGKILL to all processes of these jobs on the GPU hosts, also those that are stopped; says which they were."""
    groups = HostGroups(paths.group)
    killed: list[str] = []
    for host in load_inventory(paths.state).gpu:
        for process in filter(None, map(read_process, groups.processes(host.name))):
            of_ours = process.environment["SLURM_JOB_ID"] in map(str, jobs)
            by_slurm = "SLURM_SCRIPT_CONTEXT" in process.environment  # an epilog; killed, it would drain the node
            if of_ours and not by_slurm and send_signal(process.identity, signal.SIGKILL):
                killed.append(f"{process.pid} {process.name} on {host.name}")
    return killed


def _tell(why: str) -> None:
    note(f"  not yet: {why}")


def slurm(paths: Paths, command: str) -> str:
    """A command on the Slurm controller, as Slurm's own user; awaited where its container is just being started."""
    where = ("-n", "slurm", "exec", "slurm-controller-0", "-c", "slurmctld")

    def answer() -> tuple[str] | None:
        try:
            return (kubectl(paths, *where, "--", "sh", "-c", command),)
        except CommandError as error:
            if NO_CONTAINER not in str(error):
                raise
            return None

    (said,) = wait_for(answer, HEALTHY_SECONDS, lambda: "slurm-controller-0 runs no slurmctld", NotHealthyError)
    return said


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
    names = [host.name for host in chosen]
    with step(f"repaired: {', '.join(names)}", 10), ThreadPoolExecutor(4) as pool:
        list(pool.map(centre.repair, chosen))
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

    with step("every pool at its size, every host healthy", 20):
        wait_for(
            healthy,
            HEALTHY_SECONDS,
            lambda: "; ".join(amiss),
            NotHealthyError,
            tell=_tell,
            look_seconds=LOOK_SECONDS,
        )


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
