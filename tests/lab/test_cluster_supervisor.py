"""The supervisor keeps daemons alive, outlives its starter, adopts after its own death, stops by identity."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.supervisor.client import Supervisor, SupervisorError
from lab.supervisor.identity import Identity, identify, is_alive, send_signal
from lab.supervisor.keeper import Keeper
from lab.supervisor.unit import Unit
from tests.lab.waiting import eventually


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """A supervisor of the test's own."""
    it = Supervisor(tmp_path / "run")
    it.ensure_running(tmp_path / "supervisor.log")
    yield it
    it.ensure_running(tmp_path / "supervisor.log")
    it.shutdown()
    assert not it.is_running()


def sleeper(tmp_path: Path, name: str = "sleeper", seconds: int = 1000, **more: float) -> Unit:
    return Unit(name, ["sleep", str(seconds)], str(tmp_path / f"{name}.log"), **more)  # pyright: ignore[reportArgumentType]


def identity_of(supervisor: Supervisor, name: str = "sleeper") -> Identity | None:
    status = supervisor.find(name)
    return status.identity if status else None


def test_start_is_idempotent(supervisor: Supervisor, tmp_path: Path) -> None:
    first = supervisor.start(sleeper(tmp_path)).identity
    assert first is not None
    assert supervisor.start(sleeper(tmp_path)).identity == first


def test_a_changed_unit_is_restarted(supervisor: Supervisor, tmp_path: Path) -> None:
    first = supervisor.start(sleeper(tmp_path)).identity
    second = supervisor.start(sleeper(tmp_path, seconds=999)).identity
    assert second is not None
    assert second != first
    assert first is not None
    assert not is_alive(first)


def test_a_killed_daemon_comes_back(supervisor: Supervisor, tmp_path: Path) -> None:
    first = supervisor.start(sleeper(tmp_path)).identity
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: identity_of(supervisor) not in (None, first), 5, lambda: "the sleeper did not come back")


async def test_a_unit_that_is_started_while_its_restart_is_due_runs_once(tmp_path: Path) -> None:
    keeper = Keeper("sleeper", lambda: None)
    keeper.start(Unit("sleeper", ["false"], str(tmp_path / "sleeper.log")))
    async with asyncio.timeout(10):
        await keeper.gone.wait()
    assert keeper.report()["state"] == "waiting"
    keeper.start(sleeper(tmp_path))
    assert keeper.timer is None
    await keeper.stop()


def test_a_killed_supervisor_adopts_what_it_left(supervisor: Supervisor, tmp_path: Path) -> None:
    first = supervisor.start(sleeper(tmp_path)).identity
    assert first is not None
    parent = int(Path(f"/proc/{first.pid}/status").read_text().split("PPid:")[1].split()[0])
    os.kill(parent, signal.SIGKILL)
    eventually(lambda: not supervisor.is_running(), 5, lambda: "the supervisor still runs")
    assert is_alive(first)
    supervisor.ensure_running(tmp_path / "supervisor.log")
    assert identity_of(supervisor) == first
    send_signal(first, signal.SIGKILL)
    eventually(lambda: identity_of(supervisor) not in (None, first), 5, lambda: "an adopted daemon did not come back")


def test_stop_kills_what_ignores_term(supervisor: Supervisor, tmp_path: Path) -> None:
    script = "trap '' TERM; while :; do sleep 0.1; done"
    unit = Unit("deaf", ["sh", "-c", script], str(tmp_path / "deaf.log"), stop_seconds=0.5)
    started = supervisor.start(unit).identity
    assert started is not None
    supervisor.stop("deaf")
    assert not is_alive(started)
    found = supervisor.find("deaf")
    assert found is not None
    assert found.state == "stopped"


def test_a_program_that_does_not_exist_is_an_error(supervisor: Supervisor, tmp_path: Path) -> None:
    unit = Unit("absent", ["/no/such/program"], str(tmp_path / "absent.log"))
    with pytest.raises(SupervisorError, match="/no/such/program"):
        supervisor.start(unit)


def test_a_signal_never_reaches_a_stranger() -> None:
    own = identify(os.getpid())
    assert own is not None
    stranger = Identity(own.pid, own.start_ticks + 1)
    assert not send_signal(stranger, signal.SIGKILL)
