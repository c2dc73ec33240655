"""Sees each effect that a controller has, at the moment it has it, and knows whether it was right to do so."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sparewheel.api.names import ANNOTATION_CANCEL, LABEL_APP_NAME, SLURMD_APP_NAME
from sparewheel.api.remediation import Remediation
from sparewheel.kube.port import NODE, POD, Json
from tests.soak.world import SoakWorld

IN_REASON = re.compile(r"\(([a-z0-9.-]+)\)$")
SLACK_SECONDS = 5.0
"""The grace counts from before the strike is sent, so that it is never more than was promised."""
Told = Callable[[Any], None]


@dataclass(slots=True)
class Witness:
    world: SoakWorld
    clocks_right: bool = True
    strikes: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """By incident: when it set a Slurm node DOWN that was up."""
    admitted: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """By owner: hosts admitted."""
    breaker_closed: float = 0.0

    def seen(self, port: str, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Told | None:
        look = getattr(self, f"_{port}_{method}", None)
        found: Told | None = look(*args, **kwargs) if look is not None else None
        return found

    # ------------------------------------------------------------------ Slurm
    def _slurm_set_node_state(self, name: str, states: list[str], reason: str) -> None:
        if states == ["RESUME"]:
            self._resume(name)
            return
        incident = self._incident_of(reason)
        if incident is None:
            return  # a warm spare without its reservation
        place = self.world.worker_nodes().get(name, "")
        if "is given up" in reason:  # the spare's own Slurm node, with what has started there
            self._ends_jobs(name)
            return
        spec = incident.spec
        if place and place != spec.node:
            self.world.truth.wrong(f"{incident.metadata.name} strikes {name} on {place}, not on {spec.node}")
        elif not self.world.truth.ill(spec.node):
            self.world.truth.wrong(f"{incident.metadata.name} strikes {name} on {spec.node}, which is well")
        node = self.world.slurm.node_table.get(name)
        if states == ["DOWN"] and node is not None and not node.down:
            self._struck(incident, name)

    def _slurm_delete_node(self, name: str) -> None:
        if name in self.world.worker_nodes():
            self.world.truth.wrong(f"Slurm node {name} is deleted while its worker is there")

    def _struck(self, incident: Remediation, name: str) -> None:
        now, world = asyncio.get_running_loop().time(), self.world
        times = self.strikes.setdefault(incident.metadata.name, [])
        if times:
            world.truth.wrong(f"{incident.metadata.name} strikes {name} a second time")
        times.append(now)
        self._ends_jobs(name)
        recent = [one for at in self.strikes.values() for one in at if one > max(now - 300.0, self.breaker_closed)]
        if self.clocks_right and len(recent) > world.shape.max_fenced_nodes:
            world.truth.wrong(f"{len(recent)} nodes struck in 300 s, {world.shape.max_fenced_nodes} allowed")

    def _ends_jobs(self, name: str) -> None:
        """Setting this Slurm node DOWN ends what runs there."""
        node = self.world.slurm.node_table.get(name)
        if node is not None and not node.down:
            self.world.jobs_end_on(name)

    def _resume(self, name: str) -> None:
        """A Slurm node on an ill host must not come back while nobody called the incident off."""
        place = self.world.worker_nodes().get(name, "")
        open_ones = [one for one in self.world.records() if one.status.outcome == "Open" and one.spec.node == place]
        started = [one for one in open_ones if one.status.owned.slurm_down]
        asked = [one for one in started if ANNOTATION_CANCEL not in one.metadata.annotations and self._cordoned(place)]
        if asked and name in asked[0].status.owned.slurm_down:
            self.world.truth.wrong(f"{name} is resumed on {place}, which {asked[0].metadata.name} still holds")

    def _slurm_requeue(self, job_id: int) -> Told | None:
        job = self.world.slurm.job_table[job_id]
        about = [one for record in self.world.records() for one in record.status.jobs if one.job_id == job_id]
        if not any(one.attempt_before == job.restart_count for one in about):
            self.world.truth.wrong(f"job {job_id} is requeued in attempt {job.restart_count}, of no incident")

        parts = self.world.slurm.whole(job)

        def done(_: Any) -> None:
            for part in parts:
                self.world.truth.ended(part.job_id)

        return done

    # ------------------------------------------------------------------ Kubernetes
    def _kube_delete(self, resource: Any, name: str, namespace: str | None = None, **options: Any) -> None:
        if resource != POD:
            return
        pod = self.world.kube.peek(POD, name, namespace)
        if pod is not None and options.get("uid") in {None, pod["metadata"]["uid"]}:
            self._pod_goes(pod, force=options.get("grace_seconds") == 0)

    def _kube_evict(self, name: str, namespace: str, uid: str | None = None) -> None:
        pod = self.world.kube.peek(POD, name, namespace)
        if pod is not None and uid in {None, pod["metadata"]["uid"]}:
            self._pod_goes(pod, force=False)

    def _pod_goes(self, pod: Json, *, force: bool) -> None:
        world, name = self.world, pod["metadata"]["name"]
        node = str(pod["spec"].get("nodeName", ""))
        if not world.truth.ill(node):
            world.truth.wrong(f"pod {name} is taken from {node}, which is well")
        vetoing = world.kube.peek(POD, f"eval-{node}", "other")
        if vetoing is not None:
            world.truth.wrong(f"pod {name} is taken from {node} in spite of a veto")
        host = next((host for host in world.capacity.hosts.values() if host.node == node), None)
        if force and (host is None or host.power != "off"):
            world.truth.wrong(f"pod {name} is deleted by force and {node} is not off")
        if pod["metadata"].get("labels", {}).get(LABEL_APP_NAME) == SLURMD_APP_NAME:
            self._worker_goes(node, host.power if host is not None else "")

    def _worker_goes(self, node: str, power: str) -> None:
        now, world = asyncio.get_running_loop().time(), self.world
        workers = [name for name, place in world.worker_nodes().items() if place == node]
        left = [world.slurm.node_table[name].left for name in workers if name in world.slurm.node_table]
        saving = [job for jobs in left for job, until in jobs.items() if until > now]
        names = [one.metadata.name for one in self.world.records() if one.spec.node == node]
        struck = [at for name in names for at in self.strikes.get(name, [])]
        if saving and power != "off" and struck and now < max(struck) + world.shape.grace_seconds - SLACK_SECONDS:
            world.truth.wrong(f"the worker on {node} goes while job {saving[0]} saves within its grace")

    def _kube_merge_patch(self, resource: Any, name: str, patch: Json, *_: Any, **__: Any) -> None:
        if resource == NODE and patch.get("spec", {}).get("unschedulable") and not self.world.truth.faulty(name):
            self.world.truth.wrong(f"node {name} is cordoned, which is well")

    # ------------------------------------------------------------------ capacity
    def _capacity_admit(self, _: Any, host: str, owner: str) -> Told | None:
        def done(_: Any) -> None:
            hosts = self.admitted.setdefault(owner, set())
            hosts.add(host)
            if len(hosts) > 1:
                self.world.truth.wrong(f"{owner} admits {sorted(hosts)}")

        return done

    def _capacity_retire(self, _: Any, host: str, *__: Any) -> None:
        if not self.world.truth.ill(host):
            self.world.truth.wrong(f"host {host} is retired, which is well")

    def _capacity_give_up(self, _: Any, host: str, owner: str, reason: str, *, quarantine: bool) -> None:
        if quarantine and host not in self.world.truth.unfit and "in time" not in reason:
            self.world.truth.wrong(f"spare {host} is quarantined by {owner}: {reason}")

    def _capacity_prove_off(self, _: Any, host: str, *, power_off: bool) -> None:
        if power_off and not self.world.truth.ill(host):
            self.world.truth.wrong(f"host {host} is switched off, which is well")

    # ------------------------------------------------------------------ looking
    def _incident_of(self, reason: str) -> Remediation | None:
        found = IN_REASON.search(reason)
        return next((one for one in self.world.records() if found and one.metadata.name == found[1]), None)

    def _cordoned(self, node: str) -> bool:
        body = self.world.kube.peek(NODE, node)
        return body is not None and bool(body["spec"].get("unschedulable"))
