"""Looks out for Nodes of serving hosts that somebody deleted: waits for them, asks afresh, opens an incident."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.names import LABEL_POOL
from sparewheel.api.remediation import Remediation
from sparewheel.kube.port import NODE, KubeError, NotFoundError
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.decide.attempts import hold_reason
from sparewheel.remediation.decide.missing_node import incident_due
from sparewheel.remediation.decide.observations import NodeView, PodView
from sparewheel.remediation.decide.removed import open_about, removed, serves, without_node
from sparewheel.remediation.decide.triage import Report
from sparewheel.remediation.stages import detected
from sparewheel.remediation.stages.incident import Ports

log = logging.getLogger("sparewheel.remediation")

LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class _Missing:
    """What was known when the Node was first missed."""

    monotonic_seconds: float
    stint: str
    workers: tuple[PodView, ...]
    jobs: Mapping[int, frozenset[str]]


@dataclass(slots=True)
class RemovedNodes:
    ports: Ports
    state: State
    found: Callable[[Remediation], None]
    troubles: Callable[[], list[str]]
    _missing: dict[str, _Missing] = field(default_factory=dict[str, _Missing])
    """By host."""
    _answering_since: float = float("-inf")

    def due(self) -> list[str]:
        """Hosts whose Node is missed for longer than their pool allows. Reads all hosts: asked once for each sweep."""
        now = self._now()
        absent = {host.metadata.name: host for host in without_node(self.state.hosts.values(), self.state.nodes.keys())}
        kept = {name: self._missing.get(name) for name in absent}
        self._missing = {name: self._as_now(host, kept[name], now) for name, host in absent.items()}
        return [name for name, host in absent.items() if self._is_late(host, now)]

    def _now(self) -> float:
        """While watches fail, no time counts."""
        now = self.state.clock.monotonic_seconds()
        if self.troubles():
            self._answering_since = now
        return now

    def _is_due(self, host: GpuHost) -> bool:
        absent = bool(without_node([host], self.state.nodes.keys()))
        return absent and self._is_late(host, self._now())

    def _as_now(self, host: GpuHost, known: _Missing | None, now: float) -> _Missing:
        if known is not None and known.stint == _stint(host):
            return known
        node = host.status.node_name or ""
        log.info("event=node_missing host=%s node=%s pool=%s", host.metadata.name, node, host.spec.pool)
        worker = self.state.last_worker(node)
        window = self.state.policy_spec.crashed_job_window_seconds
        jobs = self.state.remembered_jobs(node, worker.hostname if worker is not None else "", window)
        return _Missing(now, _stint(host), (worker,) if worker is not None else (), dict(jobs))

    def _is_late(self, host: GpuHost, now: float) -> bool:
        missed = now - max(self._missing[host.metadata.name].monotonic_seconds, self._answering_since)
        pool = self.state.pools.get(host.spec.pool)
        return incident_due(missed, pool.spec if pool is not None else None)

    async def look(self, name: str) -> float | None:
        """Everything that counts is read afresh. A look-up that fails proves nothing, and the wait begins anew."""
        known, missing = self.state.hosts.get(name), self._missing.get(name)
        pool = self.state.pools.get(known.spec.pool) if known is not None else None
        if known is None or missing is None or pool is None or not self._is_due(known):
            return None
        try:
            hosts = await self.ports.replacer.pool_hosts(pool)
            host = next((one for one in hosts if one.spec.host == known.spec.host), None)
            if host is None or not serves(host) or _stint(host) != missing.stint or await self._is_there(host):
                self._missing.pop(name, None)
                return None
        except KubeError:
            self._answering_since = self.state.clock.monotonic_seconds()
            raise
        records = await self.state.incidents()
        if open_about(host, records) or not self.ports.leading():
            return LOOK_SECONDS
        seconds = self.state.clock.monotonic_seconds() - missing.monotonic_seconds
        since = self.state.clock.now() - timedelta(seconds=seconds)
        report = self._report(host, missing)
        policy = self.state.policy_spec
        new = removed(host, report, pool, policy, self.state.of_node(report.node.name), since)
        if new is not None:
            log.info("event=detected incident=%s node=%s code=%s", new.name, new.spec.node, new.spec.fault.code)
            hold = hold_reason(new.spec, policy, records, self.state.clock.now())
            spec = new.spec.model_copy(update={"hold": hold})
            self.found(await detected.create(self.ports.kube, self.ports.namespace, new.name, spec))
        return None

    async def _is_there(self, host: GpuHost) -> bool:
        """Only an answering API server's 404 says no."""
        try:
            await self.ports.kube.get(NODE, host.status.node_name or "")
        except NotFoundError:
            return False
        return True

    def _report(self, host: GpuHost, missing: _Missing) -> Report:
        name = host.status.node_name or ""
        gone = self.state.gone_nodes.get(name)
        bare = NodeView(name, "", labels={LABEL_POOL: host.spec.pool}, provider_id=host.spec.provider_id)
        boot = host.status.boot_id or (gone.boot_id if gone is not None else "")
        return Report(gone or bare, boot, workers=missing.workers, jobs_seen=missing.jobs)


def _stint(host: GpuHost) -> str:
    """One time of service: the host may leave and come back under the same name."""
    return f"{host.status.node_name}|{host.status.since}"
