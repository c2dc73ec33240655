"""What a node's helper does with a request: once, in time, only to a GPU that nobody holds, and it says how it went."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sparewheel.agent.api import ApiError, ApiServer
from sparewheel.agent.helper import look
from sparewheel.agent.node_actions import Helper, HostError
from sparewheel.api.enums import NodeActionKind
from sparewheel.api.names import ANNOTATION_NODE_ACTION
from sparewheel.api.node_action import NodeActionRequest, to_annotation
from sparewheel.api.node_health import NodeAction
from tests.support.agent_host import this_host

PCI = "0000:17:00"
START = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass
class FakeHost:
    """Remembers what was done to it."""

    held: list[str] = field(default_factory=list[str])
    lets_go_after: int = 0
    error: str = ""
    unreadable: str = ""
    done: list[str] = field(default_factory=list[str])

    def holders(self, pci: str) -> list[str]:
        if self.unreadable:
            raise HostError(self.unreadable)
        self.lets_go_after -= 1
        return self.held if self.lets_go_after >= 0 else []

    def let_go(self) -> None:
        self.done.append("let go")

    def hold_again(self) -> None:
        self.done.append("hold again")

    def reset_gpu(self, pci: str) -> None:
        self.done.append(f"reset {pci}")
        if self.error:
            raise HostError(self.error)

    def reboot(self) -> None:
        self.done.append("reboot")
        if self.error:
            raise HostError(self.error)


class Cluster:
    """What the API server keeps, and a helper that can be begun anew."""

    def __init__(self) -> None:
        self.host = FakeHost()
        self.now = START
        self.stored: dict[str, Any] = {}
        self.states: list[str] = []
        self.down = False
        self.begin("boot-a")

    def begin(self, boot_id: str) -> None:
        self.helper = Helper(self.host, boot_id, self.write, lambda: self.now, self.wait)

    def write(self, action: dict[str, Any]) -> None:
        if self.down:
            raise ApiError("no answer")
        NodeAction.model_validate(action)
        self.stored = action
        self.states.append(action["state"])

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def ask(self, kind: NodeActionKind, request_id: str = "r1", seconds: float = 60) -> str:
        device = PCI if kind is NodeActionKind.RESET_GPU else ""
        self.request = to_annotation(NodeActionRequest(request_id, kind, START + timedelta(seconds=seconds), device))
        return self.request

    def turn(self) -> None:
        self.helper.turn(self.request, self.stored)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_nothing_asked_nothing_done(cluster: Cluster) -> None:
    cluster.helper.turn("", {})
    assert (cluster.host.done, cluster.states) == ([], [])


def test_a_free_gpu_is_reset_once(cluster: Cluster) -> None:
    cluster.ask(NodeActionKind.RESET_GPU)
    for _ in range(3):
        cluster.turn()
    assert cluster.states == ["running", "succeeded"]
    assert cluster.host.done == ["let go", f"reset {PCI}", "hold again"]
    assert (cluster.stored["id"], cluster.stored["kind"], cluster.stored["device"]) == ("r1", "reset_gpu", PCI)


def test_a_gpu_that_somebody_holds_is_left_alone(cluster: Cluster) -> None:
    cluster.host.held, cluster.host.lets_go_after = ["513 python3"], 99
    cluster.ask(NodeActionKind.RESET_GPU)
    cluster.turn()
    cluster.turn()
    assert cluster.states == ["refused"]
    assert "513 python3" in cluster.stored["message"]
    assert cluster.host.done == ["let go", "hold again"]


def test_the_agent_is_given_time_to_let_go(cluster: Cluster) -> None:
    cluster.host.held, cluster.host.lets_go_after = ["9 python"], 3
    cluster.ask(NodeActionKind.RESET_GPU)
    cluster.turn()
    assert cluster.states == ["running", "succeeded"]


def test_who_holds_it_can_t_be_told(cluster: Cluster) -> None:
    cluster.host.unreadable = "/proc can't be read"
    cluster.ask(NodeActionKind.RESET_GPU)
    cluster.turn()
    assert (cluster.states, cluster.host.done) == (["refused"], ["let go", "hold again"])


@pytest.mark.parametrize("kind", list(NodeActionKind))
def test_one_that_fails_says_why(cluster: Cluster, kind: NodeActionKind) -> None:
    cluster.host.error = "nvidia-smi ended with 255: in use by another client"
    cluster.ask(kind)
    cluster.turn()
    cluster.turn()
    assert cluster.states == ["running", "failed"]
    assert "another client" in cluster.stored["message"]


@pytest.mark.parametrize("kind", list(NodeActionKind))
def test_after_its_deadline_nothing_is_begun(cluster: Cluster, kind: NodeActionKind) -> None:
    cluster.ask(kind, seconds=-1)
    cluster.turn()
    assert cluster.states == ["refused"]
    assert cluster.host.done == []


@pytest.mark.parametrize("kind", list(NodeActionKind))
def test_what_can_t_be_written_down_isn_t_begun(cluster: Cluster, kind: NodeActionKind) -> None:
    cluster.down = True
    cluster.ask(kind)
    with pytest.raises(ApiError):
        cluster.turn()
    assert not [done for done in cluster.host.done if done.startswith("re")]
    assert cluster.host.done in ([], ["let go", "hold again"])


def test_a_reboot_is_over_when_the_next_boot_says_so(cluster: Cluster) -> None:
    cluster.ask(NodeActionKind.REBOOT)
    cluster.turn()
    cluster.turn()
    assert cluster.states == ["running"], "still going down"
    cluster.begin("boot-b")
    cluster.turn()
    cluster.turn()
    assert cluster.states == ["running", "succeeded"]
    assert cluster.host.done == ["reboot"]


def test_a_host_that_never_goes_down_has_failed(cluster: Cluster) -> None:
    cluster.ask(NodeActionKind.REBOOT)
    cluster.turn()
    cluster.wait(61)
    cluster.turn()
    assert cluster.states == ["running", "failed"]


def test_a_reset_that_was_cut_off_isn_t_done_again(cluster: Cluster) -> None:
    cluster.ask(NodeActionKind.RESET_GPU)
    cluster.turn()
    cluster.stored["state"], cluster.host.done = "running", []
    cluster.begin("boot-a")
    cluster.turn()
    assert cluster.stored["state"] == "failed"
    assert cluster.host.done == ["hold again"]


def test_another_id_is_another_request(cluster: Cluster) -> None:
    for request_id in ("r1", "r2"):
        cluster.ask(NodeActionKind.RESET_GPU, request_id)
        cluster.turn()
    assert cluster.states == ["running", "succeeded"] * 2


def test_a_request_that_is_none_is_refused_once(cluster: Cluster) -> None:
    cluster.request = '{"id": "r9", "kind": "halt"}'
    cluster.turn()
    cluster.turn()
    assert cluster.states == ["refused"]
    assert cluster.stored["id"] == "r9"


# -------------------------------------------------------------------- a host that can't be written to
def test_an_agent_that_cant_be_told_of_a_reset_is_an_error_of_the_host(tmp_path: Path) -> None:
    host = this_host(tmp_path, "")
    host.reset_file.mkdir()
    with pytest.raises(HostError, match=f"{PCI} was reset, but the agent can't be told"):
        host.reset_gpu(PCI)


def test_a_reset_that_the_agent_cant_be_told_of_is_answered_as_failed(tmp_path: Path, cluster: Cluster) -> None:
    host = this_host(tmp_path, "")
    host.reset_file.mkdir()
    (tmp_path / "proc").mkdir()
    cluster.helper.host = host
    cluster.ask(NodeActionKind.RESET_GPU)
    cluster.turn()
    assert cluster.states == ["running", "failed"]
    assert "can't be told" in cluster.stored["message"]


class OneNode(ApiServer):
    """Answers with a Node that asks for something, and an empty NodeHealth."""

    def __init__(self, request: str) -> None:
        super().__init__("", 0)
        self.annotation = request

    def request(self, method: str, path: str, body: object = None, content_type: str = "") -> Any:
        return {"metadata": {"annotations": {ANNOTATION_NODE_ACTION: self.annotation}}}


def test_a_pause_that_cant_be_ended_keeps_no_reboot_from_being_done(tmp_path: Path, cluster: Cluster) -> None:
    host = this_host(tmp_path, "")
    host.pause_file.mkdir(parents=True)
    cluster.helper.host = host
    look(OneNode(cluster.ask(NodeActionKind.REBOOT)), "gpu-1", cluster.helper)
    assert cluster.states == ["running"]
    host.pause_file.rmdir()
    host.let_go()
    look(OneNode(""), "gpu-1", cluster.helper)
    assert not host.pause_file.exists(), "what an earlier turn left is taken away"
