"""What the devices tell becomes faults: states, counters and events of GPUs; one fault where two sources tell it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.agent.gpu_changes import growth
from sparewheel.agent.infiniband import Adapters, HcaReading
from sparewheel.agent.kernel_log import open_kernel_log
from sparewheel.agent.report import condition
from sparewheel.agent.watcher import Watcher
from sparewheel.api.enums import Action, FaultSource
from sparewheel.faults.classify import OpenFault
from tests.support.agent_host import START, XID_79
from tests.unit.agent.nvml_fake import FakeGpus

GPU_0 = "0000:17:00"


class Node:
    """A watcher over fake GPUs and a real log file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "proc").mkdir()
        (root / "kmsg").touch()
        self.gpus = FakeGpus()
        self.seconds = 0.0
        self.sequence = 0
        self.start()

    def start(self, **options: Any) -> None:
        self.watcher = Watcher(
            kernel_log=open_kernel_log(self.root / "kmsg"),
            gpus=self.gpus,
            host_root=self.root,
            boot_id="boot-a",
            expected_gpus=None,
            overrides=options.get("overrides", {}),
            allow_drills=False,
            adapters=options.get("adapters"),
        )

    def log(self, line: str) -> None:
        self.sequence += 1
        with (self.root / "kmsg").open("a") as file:
            file.write(line.format(seq=self.sequence, us=int(self.seconds * 1e6)))

    def look(self, seconds: float = 5.0) -> list[OpenFault]:
        self.seconds += seconds
        now = START + timedelta(seconds=self.seconds)
        self.watcher.read_kernel_log(now, self.seconds)
        self.watcher.read_events(now)
        self.watcher.read_devices(now, self.seconds)
        return self.watcher.seen.faults


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def brief(faults: list[OpenFault]) -> list[tuple[str, str, str, int]]:
    return [(fault.code, fault.device, str(fault.action), fault.count) for fault in faults]


def test_a_healthy_node_has_no_fault(node: Node) -> None:
    for _ in range(3):
        assert node.look() == []
    assert condition(node.watcher.seen)[0] == "True"


@pytest.mark.parametrize(
    ("state", "code", "action"),
    [
        ({"recovery_action": 1}, "XID 154", Action.RESET_GPU),
        ({"recovery_action": 2}, "XID 154", Action.REBOOT),
        ({"recovery_action": 3}, "XID 154", Action.RECORD),
        ({"recovery_action": 99}, "XID 154", Action.RECORD),
        ({"remap_failure": True}, "XID 64", Action.REPLACE),
        ({"remap_pending": True}, "XID 63", Action.RECORD),
        ({"uncorrectable_ecc": 1}, "ECC_UNCORRECTABLE", Action.RECORD),
        ({"lost": True}, "GPU_OFF_BUS", Action.REPLACE),
    ],
)
def test_a_state_is_one_fault_as_long_as_it_holds(node: Node, state: dict[str, Any], code: str, action: str) -> None:
    node.look()
    node.gpus.set(0, **state)
    for _ in range(3):
        node.look()
    (fault,) = [fault for fault in node.watcher.seen.faults if fault.code != "GPU_MISSING"]
    assert (fault.code, fault.device, fault.action, fault.count) == (code, GPU_0, action, 1)
    assert fault.source is FaultSource.NVML
    assert fault.gpu_index == 0
    assert "GPU-0" in fault.message


def test_a_state_that_holds_at_the_start_counts_a_counter_does_not(node: Node) -> None:
    node.gpus.set(0, remap_failure=True, uncorrectable_ecc=7)
    assert brief(node.look()) == [("XID 64", GPU_0, "replace", 1)]


def test_a_restarted_agent_counts_no_state_twice(node: Node) -> None:
    node.gpus.set(0, recovery_action=1)
    (fault,) = node.look()
    told = {"bootId": "boot-a", "faults": [wire(fault)]}
    node.start()
    node.watcher.resume(told)
    assert brief(node.look()) == [("XID 154", GPU_0, "reset_gpu", 1)]


def wire(fault: OpenFault) -> dict[str, Any]:
    return {
        "code": fault.code,
        "device": fault.device,
        "action": fault.action.value,
        "severity": fault.severity.value,
        "source": fault.source.value,
        "firstSeen": fault.first_seen.isoformat(),
        "lastSeen": fault.last_seen.isoformat(),
    }


@pytest.mark.parametrize("first", ["kernel log", "nvml"])
def test_two_sources_of_one_xid_are_one_fault(node: Node, first: str) -> None:
    node.look()
    tell = {"kernel log": lambda: node.log(XID_79), "nvml": lambda: node.gpus.events.append((79, GPU_0))}
    tell.pop(first)()
    node.look(0.1)
    if first == "kernel log":
        node.gpus.events.append((79, GPU_0))
    else:
        node.log(XID_79)
    (fault,) = node.look(0.1)
    assert (fault.code, fault.count, fault.source) == ("XID 79", 1, FaultSource.KERNEL_LOG)
    assert "python3" in fault.message, "the kernel log's words say most"


def test_what_the_kernel_says_is_not_lost_behind_what_nvml_says(node: Node) -> None:
    """NVML's last event of a dying GPU may be a mere consequence."""
    node.look()
    node.log("3,{seq},{us},-;NVRM: Xid (PCI:0000:17:00): 62, pid=4, name=python3, 2027 1 2\n")
    node.gpus.events.append((45, GPU_0))
    acting = [fault for fault in node.look(0.1) if fault.action is not Action.RECORD]
    assert [(fault.code, fault.source) for fault in acting] == [("XID 62", FaultSource.KERNEL_LOG)]
    assert condition(node.watcher.seen)[0] == "False"


def test_repeats_of_two_sources_are_counted_once_each(node: Node) -> None:
    node.look()
    for _ in range(3):
        node.log(XID_79)
        node.gpus.events.append((79, GPU_0))
        node.look(0.1)
        node.look(60)
    (fault,) = node.watcher.seen.faults
    assert fault.count == 3


def test_an_xid_that_only_nvml_tells_is_a_fault(node: Node) -> None:
    """The kernel log may be out of reach: in a container, or after a flood."""
    node.look()
    node.gpus.events += [(79, GPU_0), (154, GPU_0), (45, GPU_0)]
    assert node.watcher.read_events(START)
    assert brief(node.watcher.seen.faults) == [("XID 79", GPU_0, "replace", 1)]


def test_the_driver_falls_off_the_bus_in_words_and_as_an_xid(node: Node) -> None:
    node.look()
    node.log("3,{seq},{us},-;NVRM: GPU 0000:17:00.0: GPU has fallen off the bus.\n")
    node.gpus.events.append((79, GPU_0))
    node.gpus.set(0, lost=True)
    faults = [fault for fault in node.look(0.1) if fault.code != "GPU_MISSING"]
    assert brief(faults) == [("GPU_OFF_BUS", GPU_0, "replace", 1)]


def test_an_application_s_page_fault_asks_for_nothing(node: Node) -> None:
    node.look()
    node.gpus.events.append((31, GPU_0))
    assert brief(node.look(0.1)) == [("XID 31", GPU_0, "record", 1)]
    assert condition(node.watcher.seen)[0] == "True"


def test_a_missing_gpu_is_named(node: Node) -> None:
    node.look()
    del node.gpus.devices[2]
    (fault,) = node.look()
    assert (fault.code, fault.action) == ("GPU_MISSING", Action.REPLACE)
    assert "0000:19:00 GPU-2 162" in fault.message


def test_what_cannot_be_evaluated_is_neither_healthy_nor_a_fault(node: Node) -> None:
    node.look()
    node.gpus.message = "NVML has not answered for 21 s: the driver hangs"
    assert node.look() == []
    assert node.watcher.seen.seen_gpus is None
    status, reason, message = condition(node.watcher.seen)
    assert (status, reason) == ("Unknown", "NotEvaluated")
    assert "hangs" in message


def test_the_stack_s_word_wins_over_the_catalogue(node: Node) -> None:
    node.start(overrides={"ECC_UNCORRECTABLE": Action.REPLACE})
    node.look()
    node.gpus.set(0, uncorrectable_ecc=3)
    (fault,) = node.look()
    assert fault.action is Action.REPLACE
    assert "3 more uncorrectable" in fault.message


class Unreadable:
    def read(self) -> HcaReading:
        return HcaReading(None, "mlx5_0 cannot be read")


def test_adapters_that_cannot_be_counted_are_not_healthy(node: Node) -> None:
    node.start(adapters=Adapters(Unreadable(), expected=8))
    assert node.look() == []
    assert condition(node.watcher.seen) == ("Unknown", "NotEvaluated", "mlx5_0 cannot be read")


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**6)), max_size=30))
def test_a_counter_s_growth_is_never_more_than_what_happened(steps: list[tuple[bool, int]]) -> None:
    """A step is a driver that begins anew, or none, and then some errors."""
    counter, counted, happened = 0, 0, 0
    for anew, errors in steps:
        before, counter = counter, (0 if anew else counter) + errors
        happened += errors
        counted += growth(before, counter)
        assert 0 <= counted <= happened
    assert growth(None, 5) == growth(5, None) == 0


def test_a_reset_takes_back_what_it_heals_and_nothing_else(node: Node) -> None:
    node.look()
    node.gpus.set(0, recovery_action=1)
    node.gpus.set(1, remap_failure=True)
    node.look()
    when = START + timedelta(seconds=node.seconds)
    node.gpus.set(0, recovery_action=0)
    node.watcher.gpu_was_reset(GPU_0, when)
    node.watcher.gpu_was_reset("0000:18:00", when)
    assert brief(node.look()) == [("XID 64", "0000:18:00", "replace", 1)]


def test_a_state_that_a_reset_did_not_heal_comes_back(node: Node) -> None:
    node.gpus.set(0, recovery_action=1)
    node.look()
    node.watcher.gpu_was_reset(GPU_0, START + timedelta(seconds=node.seconds))
    assert brief(node.look()) == [("XID 154", GPU_0, "reset_gpu", 1)]
    node.watcher.gpu_was_reset(GPU_0, START)
    assert brief(node.look()) == [("XID 154", GPU_0, "reset_gpu", 1)], "it came after that reset"
