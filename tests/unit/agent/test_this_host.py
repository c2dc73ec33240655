"""The helper's real host: who holds a GPU, and how the command ends."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from sparewheel.agent.gpu_holders import holders
from sparewheel.agent.helper import ThisHost
from sparewheel.agent.node_actions import HostError
from sparewheel.agent.node_state import last_reset
from tests.support.agent_host import this_host

PCI = "0000:17:00"


def process(root: Path, pid: int, *files: str) -> None:
    folder = root / f"proc/{pid}/fd"
    folder.mkdir(parents=True)
    (folder.parent / "comm").write_text("python3\n")
    for number, file in enumerate(files):
        (folder / str(number)).symlink_to(file)


def test_who_holds_a_gpu(tmp_path: Path) -> None:
    information = tmp_path / f"proc/driver/nvidia/gpus/{PCI}.0/information"
    information.parent.mkdir(parents=True)
    information.write_text("Model: H200\nDevice Minor: \t 3\n")
    process(tmp_path, 1, "/dev/null", "/dev/nvidiactl")
    process(tmp_path, 2, "/dev/nvidia3")
    process(tmp_path, 4, "/dev/nvidia30")
    assert holders(tmp_path, PCI) == ["2 python3"]
    assert holders(tmp_path, "0000:99:00") == ["2 python3", "4 python3"], "which file is its own isn't known"


def test_where_processes_can_t_be_read_nothing_is_free(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="proc"):
        holders(tmp_path, PCI)


def test_the_command_gets_the_device_and_the_agent_the_news(tmp_path: Path) -> None:
    host = this_host(tmp_path, f"import sys; open({str(tmp_path / 'out')!r}, 'w').write(sys.argv[1])")
    host.let_go()
    assert (tmp_path / "run/pause").exists()
    host.reset_gpu(PCI)
    host.hold_again()
    host.hold_again()
    assert not (tmp_path / "run/pause").exists()
    assert (tmp_path / "out").read_text() == PCI
    found = last_reset(tmp_path / "last-reset")
    assert found is not None
    assert found[0] == PCI
    assert abs((datetime.now(UTC) - found[1]).total_seconds()) < 60


def test_a_command_that_fails_or_isn_t_there(tmp_path: Path) -> None:
    host = this_host(tmp_path, "import sys; sys.exit('GPU is in use')")
    with pytest.raises(HostError, match=r"ended with 1: GPU is in use"):
        host.reset_gpu(PCI)
    assert last_reset(tmp_path / "last-reset") is None
    with pytest.raises(HostError, match="nothing-here"):
        ThisHost(tmp_path, tmp_path / "p", ["nothing-here"], ["nothing-here"], tmp_path / "r").reboot()


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    host = this_host(tmp_path, "import time; time.sleep(60)")
    host.timeout_seconds = 0.5
    with pytest.raises(HostError, match="timed out"):
        host.reboot()
