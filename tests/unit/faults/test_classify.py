"""The catalogue against the rules we took it from, and the folding of repeats."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.enums import Action, FaultSource, Severity
from sparewheel.faults.catalogue import known_xids, xid_rule
from sparewheel.faults.classify import OpenFault, fault_of, fold
from sparewheel.faults.lines import Finding

NOW = datetime(2026, 1, 2, tzinfo=UTC)
IN_CATALOGUE = [
    *(
        8,
        13,
        31,
        32,
        43,
        45,
        46,
        48,
        54,
        61,
        62,
        63,
        64,
        68,
        69,
        74,
        79,
        92,
        94,
        95,
        109,
        110,
        119,
        120,
        121,
        136,
        137,
        140,
        143,
    ),
    *range(144, 152),
    *range(154, 173),
]
ACTS = {Action.RESET_GPU, Action.REBOOT, Action.REPLACE}


def test_every_xid_of_the_sources_is_listed() -> None:
    assert known_xids() == IN_CATALOGUE


@pytest.mark.parametrize("xid", [8, 13, 31, 43, 45, 63, 68, 69, 92, 121, 137, 157, 160, 161])
def test_an_application_fault_never_costs_a_node(xid: int) -> None:
    assert xid_rule(xid).action in {Action.IGNORE, Action.RECORD}


@pytest.mark.parametrize("xid", [46, 48, 54, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 151, 155, 156, 158])
def test_a_fault_of_the_gpu_acts(xid: int) -> None:
    assert xid_rule(xid).action in ACTS


@pytest.mark.parametrize("xid", range(144, 151))
def test_nvlink_5_goes_by_the_printed_word(xid: int) -> None:
    assert xid_rule(xid).action is Action.RECORD
    assert xid_rule(xid, fatal=True).action is Action.RESET_GPU


@pytest.mark.parametrize(
    ("code", "action"), [(0, Action.RECORD), (1, Action.RESET_GPU), (2, Action.REBOOT), (9, Action.RECORD)]
)
def test_154_by_code(code: int, action: Action) -> None:
    assert xid_rule(154, recovery_code=code).action is action


def test_an_unknown_xid_is_recorded_and_nothing_more() -> None:
    assert xid_rule(999).action is Action.RECORD


def test_an_override_wins() -> None:
    fault = fault_of(Finding(63, "0000:17:00", "t"), now=NOW, overrides={"XID 63": Action.REPLACE})
    assert fault.action is Action.REPLACE
    assert fault_of(Finding(79, "p", "t"), now=NOW, overrides={"XID 79": Action.RECORD}).action is Action.RECORD


def test_off_the_bus_without_xid_replaces() -> None:
    fault = fault_of(Finding(None, "0000:17:00", "t"), now=NOW, overrides={})
    assert (fault.code, fault.action) == ("GPU_OFF_BUS", Action.REPLACE)


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
