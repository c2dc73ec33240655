"""What a fault asks for after others: two forms of one event, consequences, bursts. Time is passed in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.enums import Action
from sparewheel.faults.classify import RANKS, OpenFault, fold
from sparewheel.faults.findings import Finding
from sparewheel.faults.judge import BURST_SECONDS, MAX_CODES, MAX_DEVICES, STICKY_SECONDS, Judge, Verdict

NOW = datetime(2026, 1, 2, tzinfo=UTC)
GPU, OTHER = "0000:17:00", "0000:18:00"


class Log:
    """A judge, and the open faults as the agent keeps them."""

    def __init__(self, **overrides: Action) -> None:
        self.judge = Judge({code.replace("_", " "): action for code, action in overrides.items()})
        self.faults: list[OpenFault] = []

    def say(self, code: str, device: str = GPU, after: float = 0.0, recovery_code: int | None = None) -> Verdict:
        finding = Finding(code, device, "text", recovery_code=recovery_code)
        verdict = self.judge.judge(finding, NOW + timedelta(seconds=after))
        self.faults = fold(self.faults, verdict.fault)
        return verdict


@pytest.mark.parametrize(("first", "second"), [("GPU_OFF_BUS", "XID 79"), ("XID 79", "GPU_OFF_BUS")])
def test_off_the_bus_in_two_forms_is_one_fault_and_of_another_gpu_a_second(first: str, second: str) -> None:
    """NVSentinel 155."""
    log = Log()
    log.say(first)
    assert log.say(second, after=10).same_event
    assert not log.say(second, OTHER, after=11).same_event
    assert [(fault.code, fault.device, fault.count) for fault in log.faults] == [(first, GPU, 2), (second, OTHER, 1)]
    assert {fault.action for fault in log.faults} == {Action.REPLACE}


def test_a_consequence_asks_for_nothing_of_its_own() -> None:
    log = Log()
    log.say("XID 48")
    after = [log.say("XID 95", after=1), log.say("XID 94", after=2), log.say("XID 45", after=3)]
    assert [verdict.fault.action for verdict in after] == [Action.RECORD, Action.RECORD, Action.IGNORE]
    assert [verdict.follows for verdict in after] == ["XID 48"] * 3
    assert "XID 48" in after[0].reason


def test_what_asks_for_more_than_the_fault_before_is_no_mere_consequence() -> None:
    log = Log()
    log.say("XID 63")
    assert log.say("XID 95", after=1).fault.action is Action.RESET_GPU
    assert log.say("UVM_FATAL", "", after=2).fault.action is Action.REBOOT


def test_a_fault_of_another_gpu_or_of_long_ago_explains_nothing() -> None:
    log = Log()
    log.say("XID 48", OTHER)
    log.say("XID 48", after=-BURST_SECONDS - 1)
    assert log.say("XID 95").fault.action is Action.RESET_GPU


def test_a_sticky_fault_explains_for_hours() -> None:
    log = Log()
    log.say("XID 79")
    assert log.say("XID 95", after=STICKY_SECONDS - 1).follows == "XID 79"
    assert log.say("UVM_FATAL", "", after=STICKY_SECONDS).fault.action is Action.RECORD


def test_consequences_explain_no_other() -> None:
    log = Log()
    log.say("XID 48")
    log.say("XID 95", after=BURST_SECONDS)
    assert log.say("XID 94", after=2 * BURST_SECONDS).fault.action is Action.RESTART_JOB


def test_154_acts_by_its_own_word_after_another() -> None:
    log = Log()
    log.say("XID 149")
    assert log.say("XID 154", after=1, recovery_code=2).fault.action is Action.REBOOT
    assert log.say("XID 95", after=2).follows == "XID 154"


def test_ten_thousand_xid_45_ask_for_nothing() -> None:
    """NVSentinel 1748: a healthy rack."""
    log = Log()
    actions = {
        log.say("XID 45", f"{node:04x}:17:00", after=n / 100).fault.action for n in range(556) for node in range(18)
    }
    assert actions == {Action.IGNORE}


def test_repeats_are_counted_a_burst() -> None:
    """dcgm-exporter 500: 31, 31 is two."""
    log = Log()
    assert [log.say("XID 31", after=n * BURST_SECONDS).nth for n in range(3)] == [1, 2, 3]
    assert log.say("XID 31", after=3 * BURST_SECONDS + 1).nth == 1
    assert log.faults[0].count == 4


def test_a_judge_that_goes_on_after_a_restart_knows_what_was_open() -> None:
    log = Log()
    log.say("GPU_OFF_BUS")
    again = Judge({})
    again.resume(log.faults)
    verdict = again.judge(Finding("XID 79", GPU, "text"), NOW + timedelta(seconds=10))
    assert verdict.same_event
    assert verdict.fault.code == "GPU_OFF_BUS"
    assert again.judge(Finding("XID 95", GPU, "text"), NOW + timedelta(seconds=11)).follows == "GPU_OFF_BUS"


def test_the_stacks_word_wins() -> None:
    assert Log(XID_45=Action.REPLACE).say("XID 45").fault.action is Action.REPLACE
    log = Log(GPU_OFF_BUS=Action.RECORD)
    assert log.say("XID 79").fault.action is Action.REPLACE


def test_gpus_fail_apart() -> None:
    """NVSentinel PR 1468: GPU 0 and GPU 3 fail, each stays its own."""
    log = Log()
    log.say("XID 48", GPU)
    log.say("XID 48", OTHER)
    assert [(fault.device, fault.count) for fault in log.faults] == [(GPU, 1), (OTHER, 1)]


CODES = [
    "XID 79",
    "GPU_OFF_BUS",
    "XID 48",
    "XID 95",
    "XID 94",
    "XID 45",
    "XID 31",
    "UVM_FATAL",
    "MLX5_FATAL",
    "SXID 20034",
]


@given(st.lists(st.tuples(st.sampled_from(CODES), st.sampled_from([GPU, OTHER]), st.integers(0, 400)), max_size=60))
def test_the_first_to_act_is_never_lost(events: list[tuple[str, str, int]]) -> None:
    """Whatever is taken for a consequence, its device has an open fault that asks for as much."""
    log, when = Log(), 0
    for code, device, gap in events:
        when += gap
        log.say(code, device, after=when)
        own = Log().say(code, device).fault.action
        assert (
            max(RANKS[fault.action] for fault in log.faults if fault.device == device or code == "UVM_FATAL")
            >= RANKS[own]
        )


def test_a_flood_of_codes_and_devices_fills_no_memory() -> None:
    judge = Judge({})
    for n in range(20 * MAX_DEVICES):
        judge.judge(Finding(f"XID {1000 + n}", f"{n:04x}:00:00", ""), NOW)
        judge.judge(Finding(f"XID {1000 + n}", GPU, ""), NOW)
    assert len(judge._past) == MAX_DEVICES
    assert len(judge._past[GPU]) == MAX_CODES
