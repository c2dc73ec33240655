"""Tables on a narrow terminal: every name stands there whole."""

from __future__ import annotations

import io
from datetime import timedelta

from rich.console import Console
from rich.table import Table

from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_host import GpuHost
from sparewheel.cli import tables
from sparewheel.cli.whole_words import whole_words
from sparewheel.remediation.decide.spare_need import need_of_pool
from tests.support.incidents import T0, pool, remediation

WIDTH = 80


def printed(table: Table) -> str:
    file = io.StringIO()
    Console(file=file, width=WIDTH).print(whole_words(table, WIDTH), crop=False)
    return file.getvalue()


def test_an_incident_s_name_is_whole_beside_a_long_message() -> None:
    record = remediation()
    record.metadata.name = "gpu-rack-12-node-107-xid-79-0"
    record.status.waiting_for = "its pods to leave, one of which is protected by a budget that allows no disruption"
    text = printed(tables.remediations([record], T0 + timedelta(minutes=5)))
    assert "gpu-rack-12-node-107-xid-79-0" in text
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert "disruption" in text


def test_machines_lose_columns_without_content_rather_than_words() -> None:
    host = GpuHost.model_validate(
        {
            "metadata": ObjectMeta(name="gpu-host-0123456789"),
            "spec": {"host": "gpu-host-0123456789", "pool": "training-pool", "providerId": "p://1"},
            "status": {"phase": "Quarantined", "reason": "XID 79 on 0000:17:00"},
        }
    )
    text = printed(tables.machines([host], [], T0))
    for word in ("gpu-host-0123456789", "training-pool", "Quarantined", "reason", "phase"):
        assert word in text
    assert "block" not in text
    assert max(map(len, text.splitlines())) <= WIDTH


def test_on_a_terminal_that_is_far_too_narrow_names_are_whole_all_the_same() -> None:
    host = GpuHost.model_validate(
        {
            "metadata": ObjectMeta(name="gpu-host-1"),
            "spec": {
                "host": "gpu-host-0123456789",
                "pool": "training-pool",
                "providerId": "p://1",
                "instanceType": "h100-80gb-sxm-ib.8x",
                "nvlinkDomain": "rack-12-domain-3",
            },
            "status": {"phase": "Quarantined", "reason": "XID 79 on 0000:17:00"},
        }
    )
    text = printed(tables.machines([host], [], T0))
    for word in ("gpu-host-0123456789", "training-pool", "h100-80gb-sxm-ib.8x", "rack-12-domain-3", "Quarantined"):
        assert word in text


def test_the_headers_of_the_spares_are_whole() -> None:
    need = need_of_pool(pool(), [], [], T0)
    text = printed(tables.spare_needs([need]))
    for word in ("configured", "failures", "node-days", "1,000", "needed"):
        assert word in text
    assert max(map(len, text.splitlines())) <= WIDTH


def test_a_column_without_content_stays_where_there_is_room() -> None:
    table = Table("name", "lemon")
    table.add_row("gpu-1", "-")
    assert "lemon" in printed(table)
