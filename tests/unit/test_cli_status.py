"""``sparewheel status`` and ``host list``: a host that takes no work is not called Active."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_host import GpuHost, GpuHostSpec, GpuHostStatus, HostPhase
from sparewheel.api.remediation import FenceKind, Outcome, Remediation
from sparewheel.cli import tables
from tests.support.incidents import NODE, T0, fenced, pool, remediation

INCIDENT = "gpu-7-xid-79-0"


def printed(table: Table) -> str:
    file = io.StringIO()
    Console(file=file, width=200).print(table)
    return file.getvalue()


def host(phase: HostPhase = HostPhase.ACTIVE, node: str | None = NODE) -> GpuHost:
    spec = GpuHostSpec(pool="gpu", host="h1", provider_id="p://h1")
    return GpuHost(metadata=ObjectMeta(name="h1"), spec=spec, status=GpuHostStatus(phase=phase, node_name=node))


def struck(fence: FenceKind) -> Remediation:
    record = fenced()
    record.status.fence = fence
    return record


def shown(record: Remediation, one: GpuHost) -> list[str]:
    return [printed(tables.hosts([one], [], [record], T0)), printed(tables.machines([one], [record], T0))]


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (struck(FenceKind.DOWN), f"Fenced (incident {INCIDENT})"),
        (struck(FenceKind.CORDON), f"Cordoned (incident {INCIDENT})"),
        (struck(FenceKind.DRAIN), f"Drained (incident {INCIDENT})"),
        (struck(FenceKind.JOBS), f"Active (incident {INCIDENT})"),
        (remediation(), f"Active (incident {INCIDENT})"),
    ],
)
def test_the_phase_of_a_host_in_an_open_incident(record: Remediation, says: str) -> None:
    for text in shown(record, host()):
        assert says in text


def test_no_word_of_incidents_that_touch_it_no_more_or_never_did() -> None:
    ended, dry, elsewhere = fenced(), fenced(), fenced()
    ended.status.outcome, dry.spec.dry_run, elsewhere.spec.node = Outcome.HEALED, True, "gpu-8"
    for record in (ended, dry, elsewhere):
        for text in shown(record, host()):
            assert "Active" in text
            assert "incident" not in text
    for text in shown(fenced(), host(HostPhase.SPARE, node=None)):
        assert "incident" not in text


@pytest.mark.parametrize(("fence", "active"), [(FenceKind.DOWN, 1), (FenceKind.JOBS, 2)])
def test_a_pool_counts_only_the_hosts_that_take_work(fence: FenceKind, active: int) -> None:
    gpu = pool()
    gpu.status.active = 2
    row = printed(tables.pools([gpu], [host()], [struck(fence)])).splitlines()[-2]
    assert row.split()[3:6] == ["2", "\N{BOX DRAWINGS LIGHT VERTICAL}", str(active)]
