"""Does what the controller asked for on this host: resets a GPU that nobody holds, reboots. Everything passed in.

A request is done once, by its id: what is begun is written into NodeHealth before it is begun, and what is found begun
by another life of this program is not begun again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from sparewheel.agent.report import rfc3339
from sparewheel.api.enums import NodeActionKind, NodeActionState
from sparewheel.api.node_action import BadRequestError, NodeActionRequest, from_annotation

MAX_CHARACTERS: Final = 300


class HostError(Exception):
    """The host could not do it; the message says why."""


class Host(Protocol):
    """What touches the machine. All of it may raise HostError."""

    def holders(self, pci: str) -> list[str]:
        """Processes that hold the GPU."""
        ...

    def let_go(self) -> None:
        """Ask the node's agent to hold no GPU."""
        ...

    def hold_again(self) -> None: ...

    def reset_gpu(self, pci: str) -> None: ...

    def reboot(self) -> None:
        """Returns once the reboot is under way."""
        ...


Write = Callable[[dict[str, Any]], None]
"""Writes NodeHealth's ``status.action``; raises ApiError when it is not stored."""


@dataclass(slots=True)
class Helper:
    """``turn`` is called again and again with what the API server says."""

    host: Host
    boot_id: str
    write: Write
    now: Callable[[], datetime]
    """By the API server's clock: a request's deadline was set on another machine, and this one's clock may be as ill as
    the machine."""
    wait: Callable[[float], object]
    let_go_seconds: float = 10.0
    """How long the GPU's holders may take to let go."""

    def turn(self, annotation: str, last: dict[str, Any]) -> None:
        """``annotation``: the Node's request, empty when there is none. ``last``: ``status.action`` as it is stored."""
        if not annotation:
            return
        try:
            request = from_annotation(annotation)
        except BadRequestError as error:
            if last.get("message") != str(error)[:MAX_CHARACTERS] or last.get("id") != (error.id or "unreadable"):
                self._tell(error.id or "unreadable", None, "", NodeActionState.REFUSED, str(error))
            return
        if last.get("id") == request.id:
            self._resume(request, last)
        elif self.now() > request.deadline:
            self._answer(request, NodeActionState.REFUSED, "its deadline had passed before it was begun")
        elif request.kind is NodeActionKind.REBOOT:
            self._reboot(request)
        else:
            self._reset(request)

    def _resume(self, request: NodeActionRequest, last: dict[str, Any]) -> None:
        """Only what is still running has an end to be told."""
        if last.get("state") != NodeActionState.RUNNING:
            return
        if request.kind is NodeActionKind.REBOOT:
            if last.get("bootId") not in (None, "", self.boot_id):
                self._answer(request, NodeActionState.SUCCEEDED, f"booted anew as {self.boot_id}")
            elif self.now() > request.deadline:
                self._answer(request, NodeActionState.FAILED, "the host didn't go down before the deadline")
            return
        self.host.hold_again()
        self._answer(request, NodeActionState.FAILED, "the helper ended while it ran; how it went isn't known")

    def _reset(self, request: NodeActionRequest) -> None:
        try:
            self.host.let_go()
            held = self._wait_until_free(request.device)
            if held:
                text = f"{request.device} is held by {', '.join(held)}"
                self._answer(request, NodeActionState.REFUSED, text)
                return
            self._answer(request, NodeActionState.RUNNING, f"resetting {request.device}")
            try:
                self.host.reset_gpu(request.device)
            except HostError as error:
                self._answer(request, NodeActionState.FAILED, str(error))
                return
            self._answer(request, NodeActionState.SUCCEEDED, f"{request.device} was reset")
        except HostError as error:
            self._answer(request, NodeActionState.REFUSED, str(error))
        finally:
            self.host.hold_again()

    def _wait_until_free(self, pci: str) -> list[str]:
        waited = 0.0
        held = self.host.holders(pci)
        while held and waited < self.let_go_seconds:
            self.wait(1.0)
            waited += 1.0
            held = self.host.holders(pci)
        return held

    def _reboot(self, request: NodeActionRequest) -> None:
        self._answer(request, NodeActionState.RUNNING, "rebooting")
        try:
            self.host.reboot()
        except HostError as error:
            self._answer(request, NodeActionState.FAILED, str(error))

    def _answer(self, request: NodeActionRequest, state: NodeActionState, message: str) -> None:
        self._tell(request.id, request.kind, request.device, state, message)

    def _tell(
        self, request_id: str, kind: NodeActionKind | None, device: str, state: NodeActionState, message: str
    ) -> None:
        self.write(
            {
                "id": request_id,
                "kind": None if kind is None else kind.value,
                "device": device,
                "state": state.value,
                "message": message[:MAX_CHARACTERS],
                "time": rfc3339(self.now()),
                "bootId": self.boot_id,
            }
        )
