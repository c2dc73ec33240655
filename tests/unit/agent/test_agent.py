"""The agent over a real file, a made-up host root and a recording API: what it writes; nothing counts twice."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from sparewheel.agent.kernel_log import KmsgFile
from tests.support.agent_host import START, XID_79, Host


def test_a_node_registered_anew_carries_the_condition_too(host: Host) -> None:
    host.turn()
    host.api.node_uid, host.api.health = "uid-2", None  # its NodeHealth went with the old Node
    host.turn(10)
    assert [c["status"] for c in host.api.conditions] == ["True", "True"]


def test_a_healthy_node_says_so_once_and_keeps_its_heartbeat(host: Host) -> None:
    for _ in range(20):
        host.turn()
    assert [c["status"] for c in host.api.conditions] == ["True"]
    assert host.api.status.gpus.seen == host.api.status.gpus.expected == 8
    assert host.api.status.heartbeat_time == START + timedelta(seconds=16)


def test_an_xid_is_reported_at_the_next_turn_with_its_own_time(host: Host) -> None:
    host.turn()
    host.write(XID_79)
    host.turn(0.2)
    (fault,) = host.api.status.faults
    assert (fault.code, fault.device, fault.action, fault.first_seen) == (
        "XID 79",
        "0000:17:00",
        "replace",
        START + timedelta(seconds=1),
    )
    assert [c["status"] for c in host.api.conditions] == ["True", "False"]
    assert [event["reason"] for event in host.api.events.values()] == ["GpuFault"]


def test_a_restarted_agent_counts_nothing_twice_and_misses_nothing(host: Host) -> None:
    host.turn()
    host.write(XID_79, seq=1)
    host.turn()
    host.write(XID_79, seq=2)
    host.start()
    host.turn()
    host.turn()
    (fault,) = host.api.status.faults
    assert fault.count == 2
    assert len(host.api.events) == 1


def test_a_new_boot_starts_clean(host: Host) -> None:
    host.turn()
    host.write(XID_79)
    host.turn()
    host.log.unlink()
    host.boot_id = "boot-b"
    host.start()
    host.turn()
    assert host.api.status.faults == []
    assert host.api.status.boot_id == "boot-b"


def test_a_fault_found_while_the_api_is_down_is_told_when_it_is_back(host: Host) -> None:
    host.turn()
    host.api.down = True
    host.write(XID_79)
    for _ in range(5):
        host.turn()
    assert host.api.status.faults == []
    host.api.down = False
    host.turn(1.5)
    assert [fault.code for fault in host.api.status.faults] == ["XID 79"]


def test_user_space_cannot_make_a_fault_and_a_drill_is_marked(host: Host) -> None:
    host.start(allow_drills=True)
    host.turn()
    host.write("12,1,0,-;NVRM: Xid (PCI:0000:17:00): 79, x\n")
    host.write("12,2,0,-;sparewheel-drill: NVRM: Xid (PCI:0000:18:00): 79, x\n")
    host.turn()
    assert [(fault.device, fault.drill) for fault in host.api.status.faults] == [("0000:18:00", True)]


def test_a_drill_counts_only_where_it_is_allowed(host: Host) -> None:
    host.turn()
    host.write("12,2,0,-;sparewheel-drill: NVRM: Xid (PCI:0000:18:00): 79, x\n")
    host.turn()
    assert host.api.status.faults == []


def test_an_unknown_xid_is_recorded_and_a_malformed_line_counted(host: Host) -> None:
    host.turn()
    host.write("3,1,0,-;NVRM: Xid (PCI:0000:17:00): 999, strange\n")
    host.write("3,2,0,-;NVRM: Xid (PCI:0000:17:00): 154 (\nnot a record\n")
    host.turn()
    status = host.api.status
    assert [(fault.code, fault.action) for fault in status.faults] == [("XID 999", "record")]
    assert status.malformed_lines == 2
    assert host.api.conditions[-1]["status"] == "True"


def test_a_lost_device_is_a_fault_and_no_count_is_unknown(host: Host) -> None:
    host.turn()
    (host.root / "dev/nvidia3").unlink()
    host.turn(6)
    assert [fault.code for fault in host.api.status.faults] == ["GPU_MISSING"]
    (host.root / "dev").rename(host.root / "gone")
    host.turn(6)
    assert host.api.status.gpus.seen is None


def test_without_a_count_the_condition_is_unknown_never_true(host: Host) -> None:
    (host.root / "dev").rename(host.root / "gone")
    host.turn()
    assert host.api.conditions[-1]["status"] == "Unknown"


def test_fewer_gpus_than_expected_at_join(host: Host) -> None:
    (host.root / "dev/nvidia7").unlink()
    host.start(expected_gpus=8)
    host.turn()
    assert host.api.conditions[-1]["status"] == "False"


def test_a_health_object_of_an_older_node_is_taken_over(host: Host) -> None:
    host.turn()
    host.api.node_uid = "uid-2"
    host.start()
    host.turn()
    assert host.api.health is not None
    assert host.api.health["metadata"]["ownerReferences"][0]["uid"] == "uid-2"


def test_a_report_that_somebody_deleted_is_written_anew_with_its_faults(host: Host) -> None:
    host.turn()
    host.write(XID_79)
    host.turn()
    host.api.health = None
    host.turn(60)
    assert [fault.code for fault in host.api.status.faults] == ["XID 79"]


def test_a_shorter_or_new_log_file_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    log = KmsgFile(path)
    with pytest.raises(FileNotFoundError):
        log.read_lines()
    path.write_text("a\nb")
    assert log.read_lines() == ["a"]
    with path.open("a") as file:
        file.write("c\n")
    assert log.read_lines() == ["bc"]
    path.write_text("d\n")
    assert log.read_lines() == ["d"]
