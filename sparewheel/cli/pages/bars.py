"""One incident as a picture: a bar for each stage, in seconds after the fault. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from sparewheel.cli.pages.html import span
from sparewheel.cli.timeline import NODE_TRACK, Row

WIDTH: Final = 1080
LANE: Final = 26
BAR: Final = 16
TOP: Final = 30
LETTER: Final = 7.4
"""About the width of a letter of the picture's font; labels get room by it."""
TOOK: Final = 110
"""Room behind the longest bar for how long it took."""
LINEAR_SECONDS: Final = 300.0
"""A longer incident has an axis that grows by factors: else what matters, the first seconds, is one line."""
_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300)
_FACTORS: Final = (1, 10, 60, 600, 3600, 21600, 86400, 604800, 2592000)


@dataclass(frozen=True, slots=True)
class Axis:
    """Where a second stands; ``last`` is the right end."""

    last: float
    left: float
    right: float

    @property
    def linear(self) -> bool:
        return self.last <= LINEAR_SECONDS

    def at(self, seconds: float) -> float:
        seconds = min(max(seconds, 0.0), self.last)
        part = seconds / self.last if self.linear else math.log1p(seconds) / math.log1p(self.last)
        return self.left + part * (self.right - self.left)

    def ticks(self) -> list[float]:
        if not self.linear:
            return [0.0, *(float(one) for one in _FACTORS if one <= self.last)]
        step = next((one for one in _STEPS if self.last / one <= 10), _STEPS[-1])
        return [float(one) for one in range(0, math.floor(self.last) + 1, step)]


def label_of(row: Row) -> str:
    return row.stage if row.stage == row.track else f"{row.track} · {row.stage}"


def picture(title: str, rows: Sequence[Row], now_seconds: float) -> str:
    """SVG. A stage that goes on ends at ``now_seconds``, and says so."""
    ends = [row.end_seconds if row.end_seconds is not None else max(now_seconds, row.start_seconds) for row in rows]
    left = min(300.0, 16 + LETTER * max((len(label_of(row)) for row in rows), default=0))
    axis = Axis(max([*ends, 1.0]), left, WIDTH - TOOK)
    height = TOP + LANE * len(rows) + 34
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
        *_grid(axis, height - 34),
    ]
    for index, (row, end) in enumerate(zip(rows, ends, strict=True)):
        parts += _bar(axis, row, end, TOP + LANE * index)
    name = "seconds after the fault" if axis.linear else "time after the fault, by factors"
    parts.append(f'<text class="soft" x="{axis.left:.0f}" y="{height - 4}">{name}</text></svg>')
    return f'<div class="wide" role="region" aria-label="picture" tabindex="0">{"".join(parts)}</div>'


def _grid(axis: Axis, bottom: int) -> list[str]:
    found: list[str] = []
    free_from = -math.inf
    for tick in axis.ticks():
        x, words = axis.at(tick), f"{tick:g}" if axis.linear else span(tick).replace(".0 s", " s")
        found.append(
            f'<line class="{"fault" if tick == 0 else "grid"}" x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom}"/>'
        )
        half = LETTER * len(words) / 2
        if x - half > free_from:  # labels never stand on one another
            found.append(_words(words, x, bottom + 14, "middle"))
            free_from = x + half + 4
    return [*found, _words("fault", axis.at(0), TOP - 14, "middle")]


def _words(words: str, x: float, y: float, anchor: str, kind: str = "soft") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.0f}" text-anchor="{anchor}">{escape(words)}</text>'


def _bar(axis: Axis, row: Row, end: float, top: float) -> list[str]:
    begin = axis.at(row.start_seconds)
    width = max(3.0, axis.at(end) - begin)
    goes_on = row.end_seconds is None
    took = "goes on" if goes_on else span(end - row.start_seconds)
    track = row.track.split(" ")[0]
    kind = track if track in {NODE_TRACK, "job", "notified"} else "plain"
    told = f"{label_of(row)}: {took}{f'. {row.message}' if row.message else ''}"
    box = f'x="{begin:.1f}" y="{top:.0f}" width="{width:.1f}" height="{BAR}" rx="2"'
    return [
        _words(label_of(row), axis.left - 8, top + 13, "end", "label"),
        f'<g><title>{escape(told)}</title><rect class="bar {kind}{" open" if goes_on else ""}" {box}/></g>',
        _words(took, begin + width + 6, top + 13, "start", "took soft"),
    ]
