"""What readings of the InfiniBand adapters say about faults. Pure; time passed in.

A port is at fault only once it has served: what is INIT, ARMED, Polling or never cabled at boot is none. Rules follow
NVSentinel's NIC monitor: a port that is DOWN at run time or disabled, three flaps in an hour, counters that move.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sparewheel.agent.gpu_changes import growth
from sparewheel.agent.infiniband import ETHERNET, PHYS_DISABLED, STATE_ACTIVE, STATE_DOWN, Hca, Port
from sparewheel.api.names import CODE_HCA_MISSING, CODE_IB_LINK_ERRORS, CODE_IB_LINK_FLAPPING, CODE_IB_PORT_DOWN
from sparewheel.faults.findings import Finding

DOWN_SECONDS: Final = 10.0
"""A shorter time out is a flap."""
HOUR: Final = 3600.0
FLAPS_AN_HOUR: Final = 3
SYMBOL_ERRORS_AN_HOUR: Final = 120
NEVER: Final = ("excessive_buffer_overrun_errors", "local_link_integrity_errors", "rnr_nak_retry_err")
"""Counters that don't move on a healthy link."""


@dataclass(slots=True)
class Hourly:
    """A sum over the last hour."""

    _entries: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])

    def add(self, now_seconds: float, amount: int) -> int:
        if amount > 0:
            self._entries.append((now_seconds, amount))
        while self._entries and now_seconds - self._entries[0][0] > HOUR:
            self._entries.popleft()
        return sum(amount for _, amount in self._entries)


@dataclass(slots=True)
class _Past:
    """What one port was before."""

    port: Port | None = None
    served: bool = False
    out_since: float | None = None
    told_down: bool = False
    downs: Hourly = field(default_factory=Hourly)
    symbols: Hourly = field(default_factory=Hourly)


class LinkWatch:
    """Fed with every reading. ``missing`` comes from what this boot has had."""

    def __init__(self) -> None:
        self._ports: dict[tuple[str, int], _Past] = {}
        self._devices: dict[str, bool] = {}
        """By device: whether it is here now."""

    def look(self, hcas: Sequence[Hca], now_seconds: float) -> list[Finding]:
        """``now_seconds``: a clock that never goes back."""
        found = self._missing(hcas)
        for hca in hcas:
            for number, port in hca.ports.items():
                past = self._ports.setdefault((hca.device, number), _Past())
                for code, text in self._port(past, port, now_seconds):
                    found.append(Finding(code, hca.device, f"{hca.name} port {number}: {text}"))
        return found

    def _missing(self, hcas: Sequence[Hca]) -> list[Finding]:
        here = {hca.device for hca in hcas}
        gone = [device for device, present in self._devices.items() if present and device not in here]
        for device in gone:
            self._devices[device] = False
        self._devices |= dict.fromkeys(here, True)
        return [Finding(CODE_HCA_MISSING, device, "the adapter is not seen any more") for device in gone]

    def _port(self, past: _Past, port: Port, now: float) -> Iterable[tuple[str, str]]:
        before, past.port = past.port, port
        active = port.state == STATE_ACTIVE
        fell = before is not None and before.state == STATE_ACTIVE and not active
        past.served = past.served or active
        out = port.state == STATE_DOWN or port.phys_state == PHYS_DISABLED
        counts = past.served or (port.phys_state == PHYS_DISABLED and port.link_layer != ETHERNET)
        if not (out and counts):
            past.out_since, past.told_down = None, False
        elif past.out_since is None:
            past.out_since = now
        if past.out_since is not None and now - past.out_since >= DOWN_SECONDS and not past.told_down:
            past.told_down = True
            yield (
                CODE_IB_PORT_DOWN,
                f"state {port.state}, physical {port.phys_state}, for {DOWN_SECONDS:.0f} s",
            )
        if before is not None:
            yield from self._counters(past, before, port, now, fell=fell)

    def _counters(self, past: _Past, before: Port, port: Port, now: float, *, fell: bool) -> Iterable[tuple[str, str]]:
        grown = {name: growth(before.counters.get(name), value) for name, value in port.counters.items()}
        down = max(grown.get("link_downed", 0), int(fell)) if past.served else 0
        downs = past.downs.add(now, down)
        if down and downs >= FLAPS_AN_HOUR:
            yield CODE_IB_LINK_FLAPPING, f"down {downs} times in an hour"
        symbols, more = past.symbols.add(now, grown.get("symbol_error", 0)), grown.get("symbol_error", 0)
        if more and symbols > SYMBOL_ERRORS_AN_HOUR:
            yield CODE_IB_LINK_ERRORS, f"{symbols} symbol errors in an hour"
        for name in NEVER:
            if grown.get(name, 0):
                yield CODE_IB_LINK_ERRORS, f"{name} grew by {grown[name]}"
