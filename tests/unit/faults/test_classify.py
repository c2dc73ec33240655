"""The folding of repeats."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.enums import Action, FaultSource, Severity
from sparewheel.faults.classify import OpenFault, fold

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@st.composite
def faults(draw: st.DrawFn) -> OpenFault:
    return OpenFault(
        severity=Severity.INFO,
        source=FaultSource.KERNEL_LOG,
        code=draw(st.sampled_from(["XID 79", "XID 31", "XID 48"])),
        device=draw(st.sampled_from(["0000:17:00", "0000:18:00"])),
        action=draw(st.sampled_from(list(Action))),
        first_seen=NOW + timedelta(seconds=draw(st.integers(0, 100))),
        last_seen=NOW + timedelta(seconds=draw(st.integers(100, 200))),
    )


@given(st.lists(faults(), max_size=30))
def test_folding_counts_everything_and_keeps_one_row_a_device_and_code(arrived: list[OpenFault]) -> None:
    folded: list[OpenFault] = []
    for fault in arrived:
        folded = fold(folded, fault)
    assert sum(fault.count for fault in folded) == len(arrived)
    keys = [(fault.code, fault.device) for fault in folded]
    assert len(keys) == len(set(keys))


def test_a_flood_of_mild_faults_does_not_push_out_a_bad_one() -> None:
    def fault(code: str, action: Action) -> OpenFault:
        return OpenFault(code, "d", action, Severity.INFO, FaultSource.KERNEL_LOG, NOW, NOW)

    bad = fault("XID 79", Action.REPLACE)
    folded = [bad]
    for number in range(200):
        folded = fold(folded, fault(f"XID {1000 + number}", Action.RECORD))
    assert bad in folded
    assert len(folded) == 64
