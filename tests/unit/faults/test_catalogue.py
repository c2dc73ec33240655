"""The catalogue against the rules we took it from: every row, and each place where our action is another."""

from __future__ import annotations

import pytest

from sparewheel.api.enums import Action, Severity
from sparewheel.faults.catalogue import (
    RECOVERY_ACTIONS,
    apply_override,
    is_code,
    known_xids,
    named_codes,
    rule_of,
    sxid_rows,
    xid_rows,
    xid_rule,
)

ACTS = {Action.RESET_GPU, Action.REBOOT, Action.REPLACE}

NVIDIA = """
8 RESTART_APP       13 RESTART_APP      31 RESTART_APP      32 RESTART_APP      43 IGNORE       45 WORKFLOW_XID_45
46 RESET_GPU        48 RESET_GPU        54 CHECK_MECHANICALS 61 CONTACT_SUPPORT 62 RESET_GPU    63 IGNORE
64 RESET_GPU        68 RESTART_APP      69 RESTART_APP      74 WORKFLOW_NVLINK_ERR              79 RESTART_BM
92 IGNORE           94 RESTART_APP      95 RESET_GPU        109 RESET_GPU       110 RESET_GPU   119 RESET_GPU
120 RESET_GPU       121 IGNORE          136 RESET_GPU       137 IGNORE          140 RESET_GPU   143 RESET_GPU
144 WORKFLOW_NVLINK5_ERR 145 WORKFLOW_NVLINK5_ERR 146 WORKFLOW_NVLINK5_ERR 147 WORKFLOW_NVLINK5_ERR
148 WORKFLOW_NVLINK5_ERR 149 WORKFLOW_NVLINK5_ERR 150 WORKFLOW_NVLINK5_ERR 151 RESTART_VM 154 FOLLOW_TEXT
155 RESET_GPU       156 RESET_GPU       157 IGNORE          158 RESET_GPU       159 WORKFLOW_XID_159
160 IGNORE          161 IGNORE          162 NONE 163 NONE 164 NONE 165 NONE 166 NONE 167 NONE 168 NONE 169 NONE
170 NONE            171 NONE            172 NONE
"""
"""NVIDIA's XID catalogue, immediate actions (A100 and newer)."""

WORDS = NVIDIA.split()
IMMEDIATE = {int(xid): action for xid, action in zip(WORDS[::2], WORDS[1::2], strict=True)}

MILD, JOB, RESET = Action.RECORD, Action.RESTART_JOB, Action.RESET_GPU
OURS = {
    "IGNORE": {Action.IGNORE, MILD},
    "NONE": {MILD},
    "RESTART_APP": {MILD, JOB},
    "RESET_GPU": {RESET},
    "RESTART_VM": {Action.REBOOT},
    "RESTART_BM": {Action.REPLACE},
    "CHECK_MECHANICALS": {Action.REPLACE},
    "WORKFLOW_XID_45": {Action.IGNORE},
    "WORKFLOW_NVLINK_ERR": {Action.REPLACE},
    "WORKFLOW_NVLINK5_ERR": {MILD},
    "WORKFLOW_XID_159": {MILD},
    "FOLLOW_TEXT": {MILD},
}
"""What we make of NVIDIA's word."""
DIFFERENT = {61: Action.REBOOT, 64: Action.REPLACE}
"""CONTACT_SUPPORT is no action; a failed row remap is a criterion for an RMA."""


def test_every_xid_of_the_sources_is_listed() -> None:
    assert known_xids() == sorted(IMMEDIATE)


@pytest.mark.parametrize("xid", IMMEDIATE)
def test_the_row_says_what_nvidia_says_and_acts_as_we_say(xid: int) -> None:
    row = xid_rows()[xid]
    assert row.immediate == IMMEDIATE[xid]
    assert row.action in ({DIFFERENT[xid]} if xid in DIFFERENT else OURS[row.immediate])
    assert (row.severity is Severity.CRITICAL) == (row.action in ACTS)
    assert row.source
    assert row.meaning


def test_flags_stand_at_the_rows_of_the_sources() -> None:
    rows = xid_rows()
    assert [xid for xid in known_xids() if rows[xid].sticky] == [74, 79, 95, 109, 119]
    assert [xid for xid in known_xids() if rows[xid].sympathetic] == [43, 45, 94, 95, 171, 172]
    follow = [48, 62, 63, 64, 74, 79, 94, 95, 109, 110, 120, 136, 143, *range(144, 151), 155, 156, 158, 159, 160, 161]
    assert [xid for xid in known_xids() if rows[xid].recovery_follows] == follow


@pytest.mark.parametrize("xid", [8, 13, 31, 43, 45, 63, 68, 69, 92, 121, 137, 157, 160, 161])
def test_an_application_fault_never_costs_a_node(xid: int) -> None:
    assert xid_rule(xid).action in {Action.IGNORE, Action.RECORD}


def test_where_tables_of_others_differ_from_the_catalogue() -> None:
    """k8s-device-plugin 1974 and others: 94 is the job's alone, 109 is the GPU's."""
    assert xid_rule(94).action is Action.RESTART_JOB
    assert xid_rule(109).action is Action.RESET_GPU


@pytest.mark.parametrize("xid", range(144, 151))
def test_nvlink_5_goes_by_the_printed_word(xid: int) -> None:
    assert xid_rule(xid).action is Action.RECORD
    assert xid_rule(xid, fatal=True).action is Action.RESET_GPU
    assert xid_rule(xid, fatal=True).severity is Severity.CRITICAL


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (0, Action.RECORD),
        (1, Action.RESET_GPU),
        (2, Action.REBOOT),
        (3, Action.RECORD),
        (4, Action.RESET_GPU),
        (9, Action.RECORD),
        (None, Action.RECORD),
    ],
)
def test_154_by_code(code: int | None, action: Action) -> None:
    assert xid_rule(154, recovery_code=code).action is action
    assert code is None or code == 9 or RECOVERY_ACTIONS[code].action is action


def test_an_unknown_code_is_recorded_and_nothing_more() -> None:
    for code in ("XID 999", "SXID 99999", "NO_SUCH"):
        assert rule_of(code).action is Action.RECORD


FATAL_SXIDS = """11001 11004 11009 11013 11018 11019 11020 12001 12002 12020 12022 12024 12025 12026 12027 12028 12031
12032 14017 15001 15006 15009 15010 15012 15013 19047 19048 19054 19084 20034 22003 22011 22012 23001 23002 23003 23004
23005 23006 23007 23008 23009 23010 23011 23012 23013 23014 23015 23016 23017 24004 24005 24006 24007"""
MILD_SXIDS = """10001 10002 10003 10004 10005 11012 11021 11022 11023 12021 12023 15008 15011 19049 20001 20009 20012
22013 24001 24002 24003"""


def test_the_classes_of_sxids() -> None:
    rows = sxid_rows()
    assert sorted(number for number, row in rows.items() if row.fatal) == [int(word) for word in FATAL_SXIDS.split()]
    assert sorted(number for number, row in rows.items() if not row.fatal) == [int(word) for word in MILD_SXIDS.split()]


def test_an_sxid_goes_by_the_printed_class_and_only_then_by_its_own() -> None:
    assert rule_of("SXID 20034").action in ACTS
    assert rule_of("SXID 20034", fatal=False).action is Action.RECORD
    assert rule_of("SXID 20001").action is Action.RECORD
    assert rule_of("SXID 20001", fatal=True).action in ACTS
    assert rule_of("SXID 99999", fatal=True).action in ACTS


@pytest.mark.parametrize("code", ["GPU_OFF_BUS", "UVM_FATAL", "AMD_RAS_UE", "MLX5_FATAL"])
def test_faults_without_a_number_that_act(code: str) -> None:
    assert rule_of(code).action in ACTS
    assert code in named_codes()


def test_what_is_a_code() -> None:
    assert all(is_code(code) for code in ("XID 0", "XID 63", "SXID 20034", *named_codes()))
    assert not any(is_code(code) for code in ("", "63", "XID", "XID 063", "XID63", "SXID x", '"XID 63"', "MLX5"))


@pytest.mark.parametrize("code", ["XID 63", "SXID 20001", "MLX5_WARNING", "AMD_RAS_CE"])
def test_an_override_wins(code: str) -> None:
    rule = apply_override(code, rule_of(code), {code: Action.REPLACE})
    assert (rule.action, rule.severity) == (Action.REPLACE, Severity.CRITICAL)
    assert apply_override(code, rule_of(code), {"XID 1": Action.REPLACE}) == rule_of(code)
