"""``sparewheel replay`` as a person runs it: files, gzip, standard input, overrides, and what can be wrong."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.replay import blocks
from sparewheel.cli import log_files
from sparewheel.cli.app import every_command
from sparewheel.cli.commands.replay import with_progress
from sparewheel.cli.overrides import Words, of_stack
from sparewheel.cli.replay_tables import MAX_ROWS
from sparewheel.faults.replay import Replay
from stacks.config import area_names
from stacks.faults import FaultRule
from stacks.ladder import Ladder
from stacks.remediation import Agent, RemediationConfig
from tests.support.kernel_logs import FORMS, render

XID_63 = "[  1.000000] NVRM: Xid (PCI:0000:17:00): 63, pid=1, Row Remapper: New row marked for remapping\n"


def run(*arguments: str, given: bytes | None = None) -> tuple[int, str, str]:
    done = CliRunner().invoke(every_command(), ["replay", *arguments], input=given)
    return done.exit_code, done.stdout, " ".join(done.stderr.split())


def found(*arguments: str, given: bytes | None = None) -> list[dict[str, Any]]:
    code, text, _ = run("--output", "json", *arguments, given=given)
    assert code == 0
    return json.loads(text)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "dmesg.log"
    path.write_text("\n".join(render(FORMS["dmesg"])[0]) + "\n")
    return path


def test_a_list_with_one_object_for_each_fault(log: Path) -> None:
    expected = render(FORMS["dmesg"])[1]
    faults = found(str(log))
    assert [(fault["line"], fault["code"], fault["device"], fault["action"]) for fault in faults] == expected
    assert all(fault["reason"] for fault in faults)


def test_gzip_and_standard_input_give_the_same(log: Path, tmp_path: Path) -> None:
    packed = tmp_path / "kept-as.old"
    packed.write_bytes(gzip.compress(log.read_bytes()))

    def without_file(faults: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{key: value for key, value in fault.items() if key != "file"} for fault in faults]

    plain = without_file(found(str(log)))
    assert without_file(found(str(packed))) == plain
    assert without_file(found("-", given=log.read_bytes())) == plain
    assert without_file(found("-", given=packed.read_bytes())) == plain
    assert [fault["file"] for fault in found(str(log), str(packed))] == [str(log)] * len(plain) + [str(packed)] * len(
        plain
    )


def test_windows_line_ends_and_no_end_at_all(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(XID_63.encode().replace(b"\n", b"\r\n") + XID_63.strip().encode())
    assert [fault["line"] for fault in found(str(path))] == [1, 2]


def test_a_table_says_what_would_have_been_done(log: Path) -> None:
    code, text, errors = run(str(log))
    assert code == 0
    assert "GPU_OFF_BUS" in text
    line = next(line for line, code, *_ in render(FORMS["dmesg"])[1] if code == "XID 48")
    assert f"at line {line} (XID 48 on 0000:17:00) the node would have been fenced" in " ".join(text.split())
    assert "1 line(s) claim a fault but cannot be read" in errors


def test_a_table_of_a_healthy_log_and_of_one_without_acting_faults(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("[  1.000000] usb 1-1: new device\n")
    assert run(str(path))[:2] == (0, "No faults.\n")
    path.write_text(XID_63)
    assert "nothing would have been done" in run(str(path))[1]


def test_an_empty_file_is_an_empty_list(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    assert run("-o", "json", str(path)) == (0, "[]\n", f"{path} is empty")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x7fELF\x00\x00", "is no text"),
        (b"LPKSHHRH\x00", "journalctl --file"),
        (b"root:x:0:0:root\n", "no line is of a form that is known"),
        (b"\x1f\x8b\x08\x00trunc", "damaged gzip"),
        (gzip.compress(XID_63.encode() * 999, mtime=0)[:-9], "damaged gzip"),
        (gzip.compress(b"\x00\x00", mtime=0), "is no text"),
    ],
)
def test_what_is_no_log_is_one_sentence(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    for output in ("json", "table"):
        code, text, errors = run("-o", output, str(path))
        assert code == 1
        assert errors.startswith("error: ")
        assert says in errors
        assert not text or json.loads(text)


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    code, text, errors = run("-o", "json", str(tmp_path / name))
    assert (code, text) == (1, "")
    assert "can't be read" in errors


def test_what_was_found_before_an_error_is_still_a_list(log: Path) -> None:
    code, text, _ = run("-o", "json", str(log), str(log) + ".missing")
    assert code == 1
    assert len(json.loads(text)) == len(render(FORMS["dmesg"])[1])


STACK = "config:\n  sparewheel:remediation:\n    fault_overrides:\n      XID 63: replace\n"
POLICY = "kind: RemediationPolicy\nspec:\n  faultPolicies: [{code: XID 63, action: reboot}]\n"


def test_overrides_of_a_stack_and_of_a_policy(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(XID_63)
    (tmp_path / "stack").write_text(STACK)
    (tmp_path / "policy").write_text(POLICY)
    log, stack, policy = (str(tmp_path / name) for name in ("log", "stack", "policy"))
    assert [found(log, *more)[0]["action"] for more in ([], ["--stack-file", stack], ["--policy", policy])] == [
        "record",
        "replace",
        "reboot",
    ]
    (tmp_path / "stack").write_text(STACK.replace("replace", "{action: cordon, dry_run: true}"))
    assert found(log, "--stack-file", stack)[0]["action"] == "cordon"
    (tmp_path / "stack").write_text("config:\n  sparewheel:pools: []\n")
    assert found(log, "--stack-file", stack)[0]["action"] == "record"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\nb: [", "line 2, column"),
        ("a: 1", "has no 'config:'"),
        ("config: 3", "holds no settings"),
        ("config: {sparewheel:remediation: {fault_overrides: [1]}}", "isn't a list of"),
        ("config: {sparewheel:remediation: {agent: 1}}", "remediation.agent holds no settings"),
        ("config: {sparewheel:remediation: {ladder: {rungs: [dance]}}}", "rungs are reset_gpu, reboot"),
        (
            "config: {sparewheel:remediaton: {}}",
            "stack: remediaton: there is no such setting; did you mean remediation?",
        ),
        (
            "config: {sparewheel:remediation: {fault_overides: {XID 13: replace}}}",
            "remediation.fault_overides: there is no such setting; did you mean fault_overrides?",
        ),
        (
            "config: {sparewheel:remediation: {fault_overrides: {XID 13: {actoin: replace}}}}",
            "remediation.fault_overrides.XID 13.actoin: there is no such setting; did you mean action?",
        ),
        (
            "config: {sparewheel:remediation: {agent: {node_action: true}}}",
            "remediation.agent.node_action: there is no such setting; did you mean node_actions?",
        ),
        (
            "config: {sparewheel:remediation: {ladder: {rung: [reboot]}}}",
            "remediation.ladder.rung: there is no such setting; did you mean rungs?",
        ),
        ("config: {sparewheel:remediation: {fault_overrides: {XID: replace}}}", "'XID' is no fault code"),
        ("config: {sparewheel:remediation: {fault_overrides: {XID 63: dance}}}", "'dance' is no action"),
    ],
)
def test_a_wrong_stack_file_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "log").write_text(XID_63)
    (tmp_path / "stack").write_text(text)
    code, out, errors = run(str(tmp_path / "log"), "--stack-file", str(tmp_path / "stack"))
    assert (code, out) == (1, "")
    assert says in errors


def test_no_setting_that_a_stack_has_is_taken_for_a_misspelt_one(tmp_path: Path) -> None:
    empty = dict.fromkeys
    healing = {**empty(RemediationConfig.model_fields), "agent": empty(Agent.model_fields)}
    healing |= {"ladder": {**empty(Ladder.model_fields), "rungs": []}}
    healing |= {"fault_overrides": {"XID 63": empty(FaultRule.model_fields)}}
    secret = {"sparewheel:remediation-hook": {"secure": "v1:x"}}
    areas = secret | {f"sparewheel:{name}": None for name in area_names()} | {"sparewheel:remediation": healing}
    (tmp_path / "stack").write_text(json.dumps({"config": areas}))
    assert of_stack(tmp_path / "stack") == Words()


XID_95 = "[  2.000000] NVRM: Xid (PCI:0000:17:00): 95, pid=1, name=x, Uncontained\n"
UVM = (
    "[  2.000000] NVRM: nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, requiring os reboot to "
    "recover.\n"
)
HELPERS = "config: {sparewheel:remediation: {agent: {node_actions: true}%s}}"
MENDED = "the node mended where it is (%s) and replaced where that does not help; the fault asks for"


@pytest.mark.parametrize(
    ("option", "text", "line", "says"),
    [
        ("--stack-file", HELPERS % "", XID_95, MENDED % "reset of the GPU, then reboot"),
        ("--stack-file", HELPERS % "", UVM, MENDED % "reboot"),
        ("--stack-file", HELPERS % ", ladder: {reboot_seconds: 300}", XID_95, MENDED % "reset of the GPU, then reboot"),
        ("--stack-file", HELPERS % ", ladder: {rungs: [reset_gpu]}", XID_95, MENDED % "reset of the GPU"),
        ("--stack-file", HELPERS % ", ladder: {rungs: [reset_gpu]}", UVM, "requeued, the node replaced"),
        ("--stack-file", HELPERS % ", ladder: {rungs: []}", XID_95, "requeued, the node replaced"),
        ("--stack-file", HELPERS % ", fault_overrides: {XID 95: replace}", XID_95, "requeued, the node replaced"),
        ("--stack-file", "config: {sparewheel:remediation: {}}", XID_95, "requeued, the node replaced"),
        ("--stack-file", "config: {sparewheel:remediation: {ladder: {rungs: [reboot]}}}", XID_95, MENDED % "reboot"),
        ("--policy", "spec: {ladder: {rungs: [{kind: reset_gpu}]}}", XID_95, MENDED % "reset of the GPU"),
        ("--policy", "spec: {nodeHelpers: false, ladder: {rungs: [{kind: reset_gpu}]}}", XID_95, "the node replaced"),
        ("--policy", "spec: {}", XID_95, "requeued, the node replaced"),
    ],
)
def test_the_sentence_tells_the_ladder(tmp_path: Path, option: str, text: str, line: str, says: str) -> None:
    (tmp_path / "log").write_text(line)
    (tmp_path / "words").write_text(text)
    code, out, _ = run(str(tmp_path / "log"), option, str(tmp_path / "words"))
    assert code == 0
    assert says in " ".join(out.split())


def test_a_torn_record_of_a_journals_json_is_told(tmp_path: Path) -> None:
    whole = json.dumps({"_TRANSPORT": "kernel", "MESSAGE": "usb 1-1: x"})
    (tmp_path / "log").write_text(f"{whole}\n{whole[:20]}\n{whole}\n")
    assert run(str(tmp_path / "log")) == (0, "No faults.\n", f"{tmp_path / 'log'}: 1 line(s) are part of no record")


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """A line without an end, and more kinds of faults than a table shows."""
    path = tmp_path / "log"
    with path.open("w") as file:
        file.write("[  1.000000] NVRM: start\n")
        file.writelines("x" * 1_000_000 for _ in range(64))
        file.write("\n")
        file.writelines(f"[  2.000000] NVRM: Xid (PCI:{n:04x}:17:00): {1000 + n}, x\n" for n in range(2 * MAX_ROWS))
    tracemalloc.start()
    try:
        code, text, _ = run(str(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert code == 0
    assert f"{MAX_ROWS} more faults" in text
    assert peak < 40e6
    assert log_files.MAX_LINE_BYTES < 1e5


def test_a_large_log_needs_no_more_memory_than_a_small_one() -> None:
    """The kind of log that ``bench.replay`` measures at 1 GB."""

    def peak_and_faults(total_bytes: int) -> tuple[int, int]:
        log, source = Replay({}, datetime(2026, 11, 30, tzinfo=UTC)), iter([*blocks(total_bytes, lines=500)])
        tracemalloc.start()
        try:
            faults = sum(1 for block in log_files.whole_lines(lambda: next(source, b"")) for _ in log.feed(block))
            return tracemalloc.get_traced_memory()[1], faults
        finally:
            tracemalloc.stop()

    small, few = peak_and_faults(1_000_000)
    large, many = peak_and_faults(6_000_000)
    assert many > 4 * few > 0
    assert large < small + 500_000


def test_progress_is_told_every_two_seconds_and_not_before(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0

    def read() -> bytes:
        nonlocal now
        now += 0.5
        return b"x" * 1_000_000

    reading = with_progress("big.log", read, lambda: now)
    for _ in range(3):
        reading()
    assert capsys.readouterr().err == ""
    for _ in range(5):
        reading()
    assert capsys.readouterr().err.splitlines() == ["big.log: 4 MB read", "big.log: 8 MB read"]
