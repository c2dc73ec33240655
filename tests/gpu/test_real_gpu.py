"""The agent on a real GPU: NVML sees it, and an application's page fault is recorded and asks for nothing."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sparewheel.agent.kernel_log import open_kernel_log
from sparewheel.agent.nvml import Pynvml
from sparewheel.agent.nvml_source import NvmlSource
from sparewheel.agent.report import condition
from sparewheel.agent.watcher import Watcher
from sparewheel.api.enums import Action

PAGE_FAULT = Path(__file__).with_name("page_fault.py")
WAIT_SECONDS = 20.0


@pytest.fixture
def nvml() -> Iterator[Pynvml]:
    library = Pynvml()
    library.start()
    yield library
    library.stop()


def until(holds: Callable[[], bool]) -> bool:
    """Look ten times a second, as the agent does."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.1)
    return False


def watcher(kernel_log: Path, source: NvmlSource) -> Watcher:
    """From now on: what the log held before is of other programs."""
    log = open_kernel_log(kernel_log)
    while log.read_lines():
        pass
    return Watcher(
        kernel_log=log,
        gpus=source,
        host_root=Path("/"),
        boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        expected_gpus=None,
        overrides={},
        allow_drills=False,
    )


def test_nvml_sees_each_gpu_with_address_and_uuid(nvml: Pynvml) -> None:
    gpus = nvml.gpus()
    assert gpus
    assert len(gpus) == len(list(Path("/dev").glob("nvidia[0-9]*")))
    for gpu in gpus:
        assert re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}", gpu.pci)
        assert gpu.uuid.startswith("GPU-")
        assert not gpu.lost


def test_a_healthy_gpu_asks_for_nothing(nvml: Pynvml) -> None:
    for gpu in nvml.gpus():
        assert gpu.recovery_action in (None, 0)
        assert not gpu.remap_failure


def test_a_real_page_fault_is_recorded_and_asks_for_nothing(kernel_log: Path) -> None:
    source = NvmlSource(Pynvml(), time.monotonic).start()
    agent = watcher(kernel_log, source)
    agent.read_devices(datetime.now(UTC), time.monotonic())
    assert agent.seen.seen_gpus, agent.seen.message
    done = subprocess.run([sys.executable, PAGE_FAULT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stdout + done.stderr

    def told() -> bool:
        agent.read_kernel_log(datetime.now(UTC), time.monotonic())
        agent.read_events(datetime.now(UTC))
        return any(fault.code == "XID 31" for fault in agent.seen.faults)

    assert until(told), f"no XID 31 within {WAIT_SECONDS} s: {agent.seen.faults}"
    (fault,) = [fault for fault in agent.seen.faults if fault.code == "XID 31"]
    assert fault.action in (Action.RECORD, Action.IGNORE)
    assert fault.device in {gpu.pci for gpu in source.read().gpus}
    agent.read_devices(datetime.now(UTC), time.monotonic())
    assert condition(agent.seen)[0] == "True", condition(agent.seen)
