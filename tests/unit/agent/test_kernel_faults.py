"""Faults of every driver through the whole agent, from records of the kernel log to NodeHealth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparewheel.api.enums import Action
from tests.support.agent_host import Host, RecordingApi
from tests.support.kernel_logs import FORMS, render

XID = "3,{seq},{us},-;NVRM: Xid (PCI:"
OFF_BUS = "3,{seq},{us},-;NVRM: GPU 0000:17:00.0: GPU has fallen off the bus.\n"


class CountingApi(RecordingApi):
    """Counts reports of NodeHealth."""

    def __init__(self) -> None:
        super().__init__()
        self.reports = 0

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        self.reports += path.endswith("nodehealths/gpu-1/status")
        return super().request(method, path, body, content_type)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def told(host: Host) -> dict[tuple[str, str], tuple[str, int]]:
    return {(fault.code, fault.device): (fault.action, fault.count) for fault in host.api.status.faults}


def test_a_whole_night(host: Host) -> None:
    """What a replay of the log finds is what the agent reports, but for what it ignores."""
    lines, expected = render(FORMS["kmsg"])
    host.turn()
    host.log.write_text("".join(line + "\n" for line in lines))
    host.turn(4000)
    acting = {(code, device): action for _, code, device, action in expected if action != Action.IGNORE}
    assert {key: action for key, (action, _) in told(host).items()} == acting
    assert told(host)["GPU_OFF_BUS", "0000:b3:00"] == (Action.REPLACE, 2)
    assert told(host)["XID 31", "0000:66:00"] == (Action.RECORD, 2)
    assert host.api.status.malformed_lines == 1
    assert any("GPU-01234567" in fault.message for fault in host.api.status.faults)


def test_two_forms_of_one_event_are_one_fault_also_across_a_restart(host: Host) -> None:
    """NVSentinel 155."""
    host.turn()
    host.write(OFF_BUS, seq=1)
    host.turn()
    host.start()
    host.write(XID + "0000:17:00): 79, x\n", seq=2)
    host.write(XID + "0000:18:00): 79, x\n", seq=3)
    host.turn()
    host.turn()
    assert told(host) == {
        ("GPU_OFF_BUS", "0000:17:00"): (Action.REPLACE, 2),
        ("XID 79", "0000:18:00"): (Action.REPLACE, 1),
    }


def test_an_instance_of_a_mig_gpu_is_told_as_its_gpu_and_named_in_the_message(host: Host) -> None:
    host.turn()
    host.write(XID + "0000:17:00 GPU-I:05 GPU-CI:00): 95, pid=1, name=x, Uncontained\n")
    host.write(XID + "0000:17:00): 95, pid=1, name=x, Uncontained\n", seq=2)
    host.turn()
    assert told(host) == {("XID 95", "0000:17:00"): (Action.RESET_GPU, 2)}
    assert "GPU-I:05 GPU-CI:00" in host.api.status.faults[0].message


def test_a_drill_explains_no_real_fault(host: Host) -> None:
    host.start(allow_drills=True)
    host.turn()
    host.write("12,1,0,-;sparewheel-drill: NVRM: Xid (PCI:0000:17:00): 79, x\n")
    host.write(XID + "0000:17:00): 95, x\n", seq=2)
    host.turn()
    assert told(host)["XID 95", "0000:17:00"] == (Action.RESET_GPU, 1)


def test_ten_thousand_lines_in_a_second_are_one_report(tmp_path: Path) -> None:
    """NVSentinel 1748: a storm of XID 45, and in it the one that counts."""
    host = Host(tmp_path)
    api = host.api = CountingApi()
    host.start()
    host.turn()
    storm = "".join(
        f"3,{n},{n},-;NVRM: Xid (PCI:0000:18:00): {45 if n % 2 else 31}, pid=4, x\n" for n in range(1, 10_001)
    )
    with host.log.open("a") as file:
        file.write(storm.replace(": 45, ", ": 79, ", 1))
    before = api.reports
    host.turn(0.2)
    host.turn(0.2)
    assert api.reports == before + 1
    assert host.api.status.kernel_log_sequence == 10_000
    assert told(host) == {
        ("XID 79", "0000:18:00"): (Action.REPLACE, 1),
        ("XID 31", "0000:18:00"): (Action.RECORD, 5000),
    }


def test_a_storm_of_xid_45_leaves_the_node_healthy(host: Host) -> None:
    host.turn()
    with host.log.open("a") as file:
        file.write("".join(f"3,{n},{n},-;NVRM: Xid (PCI:0000:17:00): 45, pid=4, x\n" for n in range(1, 10_001)))
    host.turn(6)
    assert host.api.status.faults == []
    assert [condition["status"] for condition in host.api.conditions] == ["True"]
