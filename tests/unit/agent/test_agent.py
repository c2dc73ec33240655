"""The agent over a real file, a made-up host root and a recording API: what it writes; nothing counts twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sparewheel.agent.api import ApiError
from sparewheel.agent.devices import DeviceFiles
from sparewheel.agent.kernel_log import KmsgFile, open_kernel_log
from sparewheel.agent.loop import Agent, Pace
from sparewheel.agent.node import NodeWriter
from sparewheel.agent.node_state import NodeStateFile
from sparewheel.agent.processes import job_processes
from sparewheel.agent.report import condition
from sparewheel.agent.watcher import Watcher
from sparewheel.api.node_health import NodeHealth, NodeHealthStatus

START = datetime(2026, 1, 2, tzinfo=UTC)
XID_79 = "3,{seq},{us},-;NVRM: Xid (PCI:0000:17:00): 79, pid=4, name=python3, GPU has fallen off the bus.\n"


class RecordingApi:
    """Keeps NodeHealth as an API server would; ``down`` makes every request fail."""

    def __init__(self) -> None:
        self.health: dict[str, Any] | None = None
        self.conditions: list[dict[str, Any]] = []
        self.events: dict[str, dict[str, Any]] = {}
        self.down = False
        self.node_uid = "uid-1"

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        if self.down:
            raise ApiError("no answer")
        if path == "/api/v1/nodes/gpu-1":
            return {"metadata": {"name": "gpu-1", "uid": self.node_uid}}
        if path.endswith("/nodes/gpu-1/status"):
            self.conditions.append(body["status"]["conditions"][0])
        elif path.endswith("/events"):
            if body["metadata"]["name"] in self.events:
                raise ApiError("exists", 409)
            self.events[body["metadata"]["name"]] = body
        elif method == "GET":
            if self.health is None:
                raise ApiError("not found", 404)
            return self.health
        elif method == "POST":
            self.health = body
        elif self.health is None:
            raise ApiError("not found", 404)
        else:
            self.health = {**self.health, **body, "metadata": {**self.health["metadata"], **body.get("metadata", {})}}
        return None

    @property
    def status(self) -> NodeHealthStatus:
        assert self.health is not None
        return NodeHealth.from_wire(self.health).status


class Host:
    """A host root with eight GPUs, a kernel log, and an agent that can be restarted."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.api = RecordingApi()
        (root / "dev").mkdir()
        for gpu in range(8):
            (root / "dev" / f"nvidia{gpu}").touch()
        (root / "dev/nvidiactl").touch()
        (root / "proc").mkdir()
        self.log = root / "kmsg"
        self.log.touch()
        self.seconds = 0.0
        self.boot_id = "boot-a"
        self.start()

    def start(self, **options: Any) -> None:
        watcher = Watcher(
            kernel_log=open_kernel_log(self.log),
            gpus=DeviceFiles(self.root),
            host_root=self.root,
            boot_id=self.boot_id,
            expected_gpus=options.get("expected_gpus"),
            overrides=options.get("overrides", {}),
            allow_drills=options.get("allow_drills", False),
        )
        mark = NodeStateFile(self.root / "run/node-state", dry_run=False)
        self.agent = Agent(watcher, NodeWriter(self.api, "gpu-1"), version="1", pace=Pace(), node_state=mark)

    def write(self, text: str, seq: int = 1) -> None:
        with self.log.open("a") as file:
            file.write(text.format(seq=seq, us=int(self.seconds * 1e6)))

    def turn(self, seconds: float = 1.0) -> None:
        self.seconds += seconds
        self.agent.tick(START + timedelta(seconds=self.seconds), self.seconds)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


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


def test_processes_of_jobs_are_counted_by_job(tmp_path: Path) -> None:
    for pid, environment in {
        "1": b"",
        "7": b"A=b\0SLURM_JOB_ID=42\0",
        "8": b"SLURM_JOB_ID=42",
        "9": b"XSLURM_JOB_ID=3",
    }.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "environ").write_bytes(environment)
    (tmp_path / "10").mkdir()
    (tmp_path / "version").touch()
    found = job_processes(tmp_path)
    assert (found.jobs, found.pids) == ({42: 2}, {"1", "7", "8", "9", "10"})
    assert job_processes(tmp_path, {"7"}).jobs == {42: 1}


def job_runs(host: Host, job: int) -> Path:
    folder = host.root / "proc/77"
    folder.mkdir()
    (folder / "environ").write_bytes(f"SLURM_JOB_ID={job}".encode())
    return folder


def test_a_job_that_was_there_between_two_heartbeats_is_told_with_the_fault_that_ended_it(host: Host) -> None:
    host.turn()
    folder = job_runs(host, 42)
    host.turn(2)
    (folder / "environ").unlink()
    folder.rmdir()
    host.turn(2)
    assert host.api.status.jobs == []
    host.write(XID_79)
    host.turn(0.1)
    assert [job.job_id for job in host.api.status.jobs] == [42]
    host.turn(1)
    assert [(job.job_id, job.processes) for job in host.api.status.jobs] == [(42, 0)]
    for _ in range(40):
        host.turn()
    assert host.api.status.jobs == []


def test_jobs_once_seen_survive_a_look_that_fails(host: Host) -> None:
    job_runs(host, 42)
    host.turn()
    (host.root / "proc").rename(host.root / "noproc")
    host.turn(5)
    (host.root / "proc").mkdir()
    host.turn(5)
    host.turn(5)
    assert [(job.job_id, job.processes) for job in host.api.status.jobs] == [(42, 0)]


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


def test_jobs_that_could_not_be_read_are_unknown_not_none(host: Host) -> None:
    (host.root / "proc").rename(host.root / "noproc")
    host.turn()
    assert host.api.status.jobs_observed_time is None
    assert condition(host.agent._watcher.seen)[0] == "True"  # pyright: ignore[reportPrivateUsage]
