"""Trouble of the platform's own parts while it heals: killed daemons, lost networks, a store that refuses writes."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab.cluster.api import is_ready
from lab.cluster.bootstrap import kubectl
from lab.cluster.shell import CommandError, run
from lab.machines.cgroups import HostGroups
from lab.machines.inventory import load_inventory
from lab.objects import hosts, objects, remediations
from lab.restore import RESTARTED, slurm
from lab.supervisor.client import Supervisor
from lab.supervisor.identity import Identity, send_signal
from lab.waiting import wait_for
from sparewheel.api.gpu_host import HostPhase
from sparewheel.api.names import CONTROLLER_LEASE, NAMESPACE, TAINT_FAULT
from sparewheel.api.remediation import Outcome, Remediation
from tests.lab.platform import Platform
from tests.lab.waiting import eventually

ETCD_ALARM = "http://127.0.0.1:2379/v3/maintenance/alarm"
STRANGER = "somebody-else_0"


def identity_of(platform: Platform, unit: str) -> Identity:
    """The process of a daemon beside the hosts."""
    status = Supervisor(platform.paths.run).find(unit)
    assert status is not None
    assert status.identity is not None, f"{unit} does not run"
    return status.identity


def kill_daemons(platform: Platform, *units: str) -> None:
    """SIGKILL to daemons of the control plane; back when other processes of them answer."""
    before = {unit: identity_of(platform, unit) for unit in units}
    for identity in before.values():
        assert send_signal(identity, signal.SIGKILL)
    supervisor = Supervisor(platform.paths.run)

    def back() -> bool:
        found = {unit: supervisor.find(unit) for unit in units}
        fresh = all(one and one.identity not in (None, before[unit]) for unit, one in found.items())
        return fresh and is_ready(platform.paths)

    eventually(back, 60, lambda: f"{', '.join(units)} did not come back")


def processes(platform: Platform, host: str, words: bytes) -> list[int]:
    """Each process of the host whose command line has the words."""
    found: list[int] = []
    for pid in HostGroups(platform.paths.group).processes(host):
        with suppress(OSError):
            if words in Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "):
                found.append(pid)
    return found


def kill_processes(platform: Platform, host: str, words: bytes) -> int:
    """SIGKILL to each of them; how many there were."""
    found = processes(platform, host, words)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def written_down(platform: Platform, job: int) -> None:
    """slurmctld saves its jobs some seconds late: killed before that, it forgets one that runs already."""
    path = platform.paths.common / "slurmctld" / "job_state"
    began = datetime.fromisoformat(platform.await_event(job, "first_step", 0)["time"]).timestamp()
    eventually(lambda: path.stat().st_mtime > began, 60, lambda: f"{path.name} is of {path.stat().st_mtime}")


@contextmanager
def paused(platform: Platform, unit: str) -> Iterator[None]:
    """The daemon stands still: connections are taken and nothing is answered."""
    identity = identity_of(platform, unit)
    assert send_signal(identity, signal.SIGSTOP)
    try:
        yield
    finally:
        send_signal(identity, signal.SIGCONT)
        eventually(lambda: is_ready(platform.paths), 60, lambda: f"{unit} does not go on")


@contextmanager
def store_full(platform: Platform) -> Iterator[None]:
    """etcd's own alarm for a store without space: every write is refused, reads go on."""
    try:
        _alarm("ACTIVATE")
        yield
    finally:
        _alarm("DEACTIVATE")
        eventually(lambda: is_ready(platform.paths), 60, lambda: "the API server is not ready after the alarm")


def _alarm(action: str) -> None:
    body = json.dumps({"action": action, "memberID": 0, "alarm": "NOSPACE"}).encode()
    with urllib.request.urlopen(urllib.request.Request(ETCD_ALARM, data=body), timeout=10) as answer:
        answer.read()


@contextmanager
def unplugged(platform: Platform, host: str) -> Iterator[None]:
    """The host's cable is out; everything on it runs on. A host that was switched off has no cable any more."""
    link = load_inventory(platform.paths.state).host(host).link
    run(["ip", "link", "set", link, "down"])
    try:
        yield
    finally:
        with suppress(CommandError):
            run(["ip", "link", "set", link, "up"])


def lease_taken(platform: Platform, seconds: float) -> None:
    """Somebody else holds the controllers' lease and renews it every two seconds, then stops."""
    end = time.monotonic() + seconds

    def renew() -> bool:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        patch = json.dumps({"spec": {"holderIdentity": STRANGER, "renewTime": now}})
        kubectl(platform.paths, "-n", NAMESPACE, "patch", "lease", CONTROLLER_LEASE, "--type=merge", "-p", patch)
        return time.monotonic() > end

    wait_for(renew, seconds + 30, lambda: "the lease could not be held", pytest.fail.Exception, look_seconds=2)


def lasts(seconds: float) -> None:
    """Trouble of a given length: nothing else is awaited."""
    time.sleep(seconds)


def gone_on(platform: Platform, job: int, node: str, name: str) -> Remediation:
    """Everything that has to hold when it is over; the record."""
    platform.await_event(job, "first_step", 1)
    start = next(e for e in platform.events(job) if e["event"] == "start" and e["attempt"] == 1)
    record = settled(platform, job, node, name, start["resumed_from_step"])
    attempts = sorted({event["attempt"] for event in platform.events(job)})
    assert attempts == [0, 1], f"the job was struck more than once: attempts {attempts}"
    return record


def settled(platform: Platform, job: int, node: str, name: str, resumed_from_step: int | None) -> Remediation:
    """The record of a job that resumed once and from there, when the platform is whole again and nothing is left."""
    record = platform.healed(name)
    record = platform.await_record(name, "the jobs' tracks are closed", lambda r: all(j.closed for j in r.status.jobs))
    wrong: list[str] = []

    def expect(holds: bool, otherwise: str) -> None:
        if not holds:
            wrong.append(otherwise)

    expect(platform.alice.job(job).state == "RUNNING", f"the job is {platform.alice.job(job)}")
    expect(node not in platform.nodes_of(job), "the job is on the struck node")
    expect(not platform.node_exists(node), f"the node {node} is still there")
    names = [r.metadata.name for r in remediations(platform.paths)]
    expect(names == [name], f"incidents: {names}")
    known = hosts(platform.paths)
    phases = sorted(host.status.phase for host in known.values())
    expect(phases == [HostPhase.ACTIVE, HostPhase.ACTIVE, HostPhase.QUARANTINED], f"hosts: {phases}")
    expect(known[node].status.phase is HostPhase.QUARANTINED, f"{node} is {known[node].status.phase}")
    expect(record.status.outcome is Outcome.HEALED, f"outcome {record.status.outcome}")
    expect(record.status.replacement.bad_host == node, f"the record names {record.status.replacement.bad_host}")
    followed = next((one for one in record.status.jobs if one.job_id == job), None)
    expect(followed is not None, "the record does not know the job")
    if followed is not None:
        told, true = (followed.attempt_after, followed.resumed_from_step), (1, resumed_from_step)
        expect(told == true, f"the record says {told} of the job, which says {true}")
    times = [stage.started_at for stage in record.status.stages]
    expect(times == sorted(times), f"stages out of order: {record.status.stages}")
    expect(all(stage.ended_at for stage in record.status.stages), f"a stage has no end: {record.status.stages}")
    eventually(lambda: bool(platform.inbox.of("incident.closed")), 60, lambda: f"nobody is told of the end of {name}")
    for event in ("incident.detected", "incident.closed"):
        count = len(platform.inbox.of(event))
        expect(count == 1, f"{event} was told {count} times")
    wrong += left_over(platform)
    assert not wrong, "\n".join([*wrong, platform.say(name), platform.slurm_view()])
    return record


def left_over(platform: Platform) -> list[str]:
    """What an incident made and nobody took back."""
    found: list[str] = []
    for node in objects(platform.paths, "nodes"):
        name, spec = node["metadata"]["name"], node["spec"]
        if spec.get("unschedulable"):
            found.append(f"{name} is cordoned")
        if any(taint["key"] == TAINT_FAULT for taint in spec.get("taints", [])):
            found.append(f"{name} is tainted")
    known = hosts(platform.paths).values()
    found += [f"{host.metadata.name} is claimed: {host.status.claim}" for host in known if host.status.claim]
    reservations = slurm(platform.paths, "scontrol -o show res 2>/dev/null | grep ReservationName || true").strip()
    if reservations:
        found.append(f"reservations: {reservations}")
    states = slurm(platform.paths, "sinfo -N -h -o '%N %T %E'").splitlines()  # a worker of before may have left one
    found += [f"Slurm: {line}" for line in states if ("down" in line or "drain" in line) and RESTARTED not in line]
    return found
