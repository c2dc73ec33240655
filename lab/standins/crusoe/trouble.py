"""What a test asks to go wrong: answers that are refused, connections cut, other people's changes in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Fault:
    """For the next ``times`` requests whose ``METHOD path`` contains ``match``.

    ``cut``: the connection is closed without an answer; ``carried_out``: after the request was done all the same.
    """

    match: str
    status: int = 500
    times: int = 1
    message: str = "internal_error"
    retry_after: str = ""
    cut: bool = False
    carried_out: bool = False


@dataclass(slots=True)
class Trouble:
    faults: list[Fault] = field(default_factory=list[Fault])
    meanwhile: list[tuple[str, Callable[[], None]]] = field(default_factory=list[tuple[str, Callable[[], None]]])

    def fault_for(self, line: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and fault.match in line:
                fault.times -= 1
                return fault
        return None

    def after(self, match: str, change: Callable[[], None]) -> None:
        """Somebody else does ``change`` once, right after a request that matches was answered."""
        self.meanwhile.append((match, change))

    def others_act(self, line: str) -> None:
        due = [entry for entry in self.meanwhile if entry[0] in line]
        for entry in due:
            self.meanwhile.remove(entry)
            entry[1]()
