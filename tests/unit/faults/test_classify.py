"""The folding of repeats."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.enums import Action, FaultSource, Severity
from sparewheel.faults.classify import MAX_SIGHTINGS, OpenFault, Sighting, fold, sightings
from sparewheel.faults.findings import Finding
from sparewheel.faults.judge import Judge

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


# -------------------------------------------------------------------- sightings, for rules on repeats
def seen(seconds: float, job: int | None = None) -> Sighting:
    return Sighting(NOW + timedelta(seconds=seconds), job)


@given(st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from([None, 7, 8])), max_size=60))
def test_sightings_are_few_and_none_is_uncounted_while_jobs_are_few(when: list[tuple[int, int | None]]) -> None:
    found: tuple[Sighting, ...] = ()
    for seconds, job in sorted(when, key=lambda one: one[0]):
        found = sightings(found, [seen(seconds, job)])
    assert len(found) <= MAX_SIGHTINGS
    assert [one.time for one in found] == sorted(one.time for one in found)
    if len(when) <= MAX_SIGHTINGS:
        assert sum(one.count for one in found) == len(when)


def test_a_flood_under_one_job_does_not_push_out_the_job_before() -> None:
    found: tuple[Sighting, ...] = (seen(0, 7),)
    for seconds in range(100, 10_000, 10):
        found = sightings(found, [seen(seconds, 8)])
    assert {one.job_id for one in found} == {7, 8}


def test_several_lines_of_one_moment_are_one_sighting() -> None:
    found = sightings((seen(0, 7),), [seen(0.4, 7), seen(0.8, 7)])
    assert [one.count for one in found] == [3]
    assert len(sightings(found, [seen(0.9, 8)])) == 2, "another job's is another"


def test_an_override_by_pattern_gives_way_to_the_code_itself() -> None:
    overrides = {"XID *": Action.RECORD, "XID 79": Action.CORDON}
    judge = Judge(overrides)
    by_code = {xid: judge.judge(Finding(f"XID {xid}", f"0000:{xid}:00", "x"), NOW).fault for xid in (64, 79)}
    assert (by_code[64].action, by_code[79].action) == (Action.RECORD, Action.CORDON)
    assert by_code[79].severity is Severity.CRITICAL
