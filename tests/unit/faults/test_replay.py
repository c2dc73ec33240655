"""Recorded logs in every form give the same faults at the right lines; nothing but the kernel is believed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.enums import Action
from sparewheel.faults.replay import Replay, ReplayedFault
from tests.support.kernel_logs import BOOT, FORMS, NIGHT, OFF_BUS, render

NOW = datetime(2026, 12, 1, tzinfo=UTC)
XID_79 = "NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus."


def replayed(*lines: str | bytes, **overrides: Action) -> tuple[list[ReplayedFault], Replay]:
    log = Replay({code.replace("_", " "): action for code, action in overrides.items()}, NOW)
    raw = [line if isinstance(line, bytes) else line.encode() for line in lines]
    faults = [fault for line in raw for fault in log.feed(line)]
    at_once = Replay(log._overrides, NOW)
    assert list(at_once.feed(b"\n".join(raw))) == faults or not raw
    return faults, log


def codes(*lines: str | bytes) -> list[tuple[int, str]]:
    return [(fault.line, fault.code) for fault in replayed(*lines)[0]]


@pytest.mark.parametrize("form", FORMS)
def test_the_same_night_in_every_form(form: str) -> None:
    lines, expected = render(FORMS[form])
    faults, log = replayed(*lines)
    assert [(fault.line, fault.code, fault.device, fault.action) for fault in faults] == expected
    assert log.malformed == 1
    told_origin = form in ("dmesg -x", "dmesg -r", "journalctl -o json", "syslog", "kmsg") or form.startswith("journal")
    assert log.forged == (1 if told_origin else 0)
    assert log.unread == 0


@pytest.mark.parametrize("form", sorted(set(FORMS) - {"dmesg", "dmesg -x", "dmesg -r", "kmsg"}))
def test_times_are_the_logs_own(form: str) -> None:
    faults, _ = replayed(*render(FORMS[form])[0])
    expected = [BOOT + timedelta(seconds=event.seconds) for event in NIGHT if event.fault]
    found = [fault.time for fault in faults if fault.time is not None]
    shown = [time.replace(tzinfo=UTC, microsecond=0) for time in found]
    assert shown == [time.replace(microsecond=0) for time in expected]


@pytest.mark.parametrize("form", ["dmesg", "dmesg -x", "dmesg -r", "kmsg"])
def test_times_since_boot(form: str) -> None:
    faults, _ = replayed(*render(FORMS[form])[0])
    assert [fault.since_boot_seconds for fault in faults] == [event.seconds for event in NIGHT if event.fault]


def test_what_is_told_of_one_fault() -> None:
    (fault,) = replayed(f"Nov 30 14:00:00 gpu-1 kernel: {XID_79}")[0]
    body = json.loads(json.dumps(fault.as_json()))
    assert body["time"] == "2026-11-30T14:00:00"
    assert (body["line"], body["code"], body["device"], body["action"]) == (1, "XID 79", "0000:17:00", "replace")
    assert "bus" in body["reason"]
    assert body["count"] == 1


@pytest.mark.parametrize(
    "line",
    [
        f"Nov 30 14:00:00 gpu-1 python3[123]: {XID_79}",
        f"Nov 30 14:00:00 gpu-1 kernel[123]: {XID_79}",
        f"Nov 30 14:00:00 gpu-1 python3[123]: kernel: {XID_79}",
        f"2026-11-30T14:00:00+0000 gpu-1 systemd[1]: {XID_79}",
        f"11,1,2,-;{XID_79}",
        f"user  :notice: [  1.000000] {XID_79}",
        f"<13>[  1.000000] {XID_79}",
        f"<11>Nov 30 14:00:00 gpu-1 kernel: {XID_79}",
        f"<3>Nov 30 14:00:00 gpu-1 python3[123]: {XID_79}",
        f"[  1.000000] audit: comm={XID_79}",
        json.dumps({"_TRANSPORT": "syslog", "SYSLOG_IDENTIFIER": "kernel", "MESSAGE": XID_79}),
        json.dumps({"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "1", "MESSAGE": XID_79}),
        json.dumps({"SYSLOG_IDENTIFIER": "kernel", "MESSAGE": XID_79}),
        json.dumps({"MESSAGE": ["a", XID_79], "_TRANSPORT": "kernel"}),
    ],
)
def test_user_space_makes_no_fault(line: str) -> None:
    """NVSentinel PR 1426: any process can write such a line."""
    assert codes(line) == []


@pytest.mark.parametrize(
    "first",
    [
        "Nov 30 14:00:00 gpu-1 python3[123]: two",
        "user  :notice: [  1.000000] two",
        "11,1,2,-;two",
        json.dumps({"_TRANSPORT": "syslog", "MESSAGE": "two"}),
    ],
)
@pytest.mark.parametrize("more", [f"      {XID_79}", XID_79])
def test_a_second_line_of_user_space_makes_no_fault_either(first: str, more: str) -> None:
    kernel_before = {"N": "Nov 30 13:59:00 gpu-1 kernel: x", "u": "kern  :info  : [  0.500000] x", "1": "6,0,1,-;x"}
    before = kernel_before.get(first[0], json.dumps({"_TRANSPORT": "kernel", "MESSAGE": "x"}))
    assert codes(before, first, more) == []


def test_a_line_of_another_form_in_the_middle() -> None:
    """Two logs in one file are both read, but one that tells origins never goes on as one that doesn't."""
    journal, plain = f"Nov 30 14:00:00 gpu-1 kernel: {XID_79}", f"[  9.000000] {XID_79.replace('17', '18')}"
    assert codes(journal, plain) == [(1, "XID 79"), (2, "XID 79")]
    assert codes(plain, journal) == [(1, "XID 79"), (2, "XID 79")]
    assert codes("user  :notice: [  1.000000] two", plain) == []


def test_dmesg_with_other_stamps_and_without() -> None:
    stamps = [
        "[  +0.000012] ",
        "[  123.456789 <    0.000004>] ",
        "[Nov30 14:00] ",
        "[   12.5][  T123] ",
        "kern  :err   : ",
        "[  5.0] gpu-1 kernel: ",
        "1796047200.25 gpu-1 kernel: ",
        "<3>Nov 30 14:00:00 gpu-1 kernel: [  5.0] ",
        "",
    ]
    for stamp in stamps:
        assert codes(stamp + XID_79) == [(1, "XID 79")], stamp


def test_a_reboot_ends_what_was_before() -> None:
    gpu_off, xid = f"[  900.000000] {XID_79}", "[  5.000000] NVRM: Xid (PCI:0000:17:00): 95, x"
    (_, after) = replayed(gpu_off, xid)[0]
    assert after.action is Action.RESET_GPU
    journal = "Nov 30 14:00:00 gpu-1 kernel: "
    lines = [journal + XID_79, "-- Boot 0123456789abcdef0123456789abcdef --", f"{journal}{XID_79}"]
    assert [fault.nth for fault in replayed(*lines)[0]] == [1, 1]
    boots = [json.dumps({"_TRANSPORT": "kernel", "MESSAGE": XID_79, "_BOOT_ID": boot}) for boot in "aab"]
    assert [fault.nth for fault in replayed(*boots)[0]] == [1, 2, 1]


def test_off_the_bus_then_79_is_one_fault_and_of_another_gpu_two() -> None:
    """NVSentinel 155."""
    lines = [f"[  {n}.000000] {text}" for n, text in enumerate(OFF_BUS)]
    assert codes(*lines, f"[  12.000000] {XID_79.replace('17', 'b3')}") == [(3, "GPU_OFF_BUS")]
    assert codes(*lines, f"[  12.000000] {XID_79}") == [(3, "GPU_OFF_BUS"), (4, "XID 79")]


def test_a_flood_of_xid_45_repairs_nothing() -> None:
    """NVSentinel 1748."""
    lines = [f"[{n:6d}.000000] NVRM: Xid (PCI:0000:17:00): 45, pid=1, name=x, Ch 1" for n in range(10_000)]
    faults, _ = replayed(*lines)
    assert len(faults) == 10_000
    assert {fault.action for fault in faults} == {Action.IGNORE}


@pytest.mark.parametrize("before", ["<3>1 2026-11-30T10:11:13Z gpu-1 kernel - - - ", "[  5.0] gpu-1: "])
def test_a_fault_behind_something_else_is_counted_not_passed_over(before: str) -> None:
    faults, log = replayed(before + XID_79, f"{before}NVRM: loading")
    assert (faults, log.behind) == ([], 1)


def test_the_stacks_word_wins() -> None:
    (fault,) = replayed("[  1.0] NVRM: Xid (PCI:0000:17:00): 63, x", XID_63=Action.REPLACE)[0]
    assert (fault.action, fault.reason.endswith("overridden by this stack")) == (Action.REPLACE, True)


def test_an_adapters_death_and_what_the_driver_tries_after_it_are_one_burst() -> None:
    lines = [
        "poll_health:795:(pid 0): Fatal error 1 detected",
        "mlx5_health_try_recover:338:(pid 5): health recovery flow aborted, PCI reads still not working",
        "mlx5_fw_fatal_reporter_err_work:669:(pid 5): health recovery failed",
    ]
    faults, _ = replayed(*(f"[{n}.000000] mlx5_core 0000:86:00.0: {text}" for n, text in enumerate(lines)))
    assert [(fault.code, fault.device, fault.nth) for fault in faults] == [
        ("MLX5_FATAL", "0000:86:00", n) for n in (1, 2, 3)
    ]
    forged = [f"Nov 30 14:00:00 gpu-1 python3[123]: mlx5_core 0000:86:00.0: {text}" for text in lines]
    faults, log = replayed(*forged)
    assert (faults, log.forged) == ([], 3)


def test_two_instances_of_a_mig_gpu_are_one_device() -> None:
    lines = [f"[  {n}.0] NVRM: Xid (PCI:0000:61:00 GPU-I:0{n} GPU-CI:00): 94, pid=1, name=x, Contained" for n in (1, 2)]
    whole = "[  3.0] NVRM: Xid (PCI:0000:61:00): 94, pid=1, name=x, Contained"
    faults, _ = replayed(*lines, whole)
    assert [(fault.device, fault.nth) for fault in faults] == [("0000:61:00", n) for n in (1, 2, 3)]
    assert "GPU-I:02 GPU-CI:00" in faults[1].text


def test_a_record_of_a_journals_json_that_is_no_whole_object_is_counted() -> None:
    """Also one that tells nothing; a log in another form behind it is read as such."""
    whole = [json.dumps({"_TRANSPORT": "kernel", "MESSAGE": text}) for text in ("usb 1-1: x", XID_79, "usb 2-2: x")]
    for torn in (whole[0][:-9], whole[1][:-9], whole[0][:-9] + whole[2], "stray"):
        faults, log = replayed(*whole, torn, whole[0], "", whole[1])
        assert [fault.line for fault in faults] == [2, 7]
        assert (log.unread, log.form) == (1, "json"), torn
    faults, log = replayed(*whole, "[  1.0] usb 1-1: x", "[  2.0] usb 2-2: x", "  more of it")
    assert (len(faults), log.unread) == (1, 0)


def test_lines_that_are_no_log() -> None:
    faults, log = replayed("root:x:0:0", "", b"\xff\xfe\x00", "{}", "[1, 2]", "-- No entries --")
    assert (faults, log.form, log.unread) == ([], "", 4)


PIECES = st.sampled_from(
    [
        *(
            "[  1.000000] ",
            "[Mon Nov 30 14:00:00 2026] ",
            "[Feb30 25:61] ",
            "Feb 29 00:00:00 h kernel: ",
            "3,1,2,-;",
            " ",
        ),
        *(
            "kern  :err   : ",
            "<3>",
            '{"MESSAGE": ',
            '"',
            "\n",
            "}",
            "NVRM: ",
            "NVRM: Xid (PCI:0000:17:00): ",
            "154, to 0x",
        ),
        *(
            "9999-99-99T99:99:99 h kernel: ",
            "99999999999.9 h kernel: ",
            "[999999999999.9] ",
            "-- Boot ",
            '{"_TRANSPORT":"kernel",',
        ),
        *("amdgpu 0000:c3:00.0: 2 uncorrectable ", "mlx5_core ", "\\x0a", "\x1e", "nvidia-nvswitch0: SXid (", *OFF_BUS),
    ]
)


@given(st.lists(st.lists(PIECES.map(str.encode) | st.binary(max_size=20), max_size=5).map(b"".join), max_size=20))
def test_no_bytes_raise(lines: list[bytes]) -> None:
    faults, log = replayed(*(line.replace(b"\n", b"") for line in lines))
    assert log.lines == len(lines)
    assert all(1 <= fault.line <= len(lines) for fault in faults)
    for fault in faults:
        json.dumps(fault.as_json())


@given(st.data(), st.sampled_from(sorted(FORMS)))
def test_lines_of_others_between_change_nothing(data: st.DataObject, form: str) -> None:
    """Other drivers' records anywhere between: the same faults, each a few lines further down."""
    lines: list[str] = []
    faults: list[tuple[int, str, str, str]] = []
    for number, event in enumerate(NIGHT):
        for _ in range(data.draw(st.integers(0, 2))):
            lines += FORMS[form](NIGHT[11], number)
        lines += FORMS[form](event, number)
        if event.fault is not None:
            faults.append((len(lines), *event.fault))
    found = [(fault.line, fault.code, fault.device, fault.action) for fault in replayed(*lines)[0]]
    assert found == faults
