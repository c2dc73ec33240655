"""Some days as a picture: a line for each node, a mark for each incident. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from html import escape
from typing import Final

from sparewheel.api.remediation import NodeStage, Remediation
from sparewheel.cli.pages.html import moment
from sparewheel.cli.pages.incident import fault_words, kind_of
from sparewheel.remediation.decide.record import stage_record

WIDTH: Final = 1080
LEFT: Final = 200
RIGHT: Final = 40
LANE: Final = 24
MOST_NODES: Final = 40
"""More lines than this nobody reads: the nodes with the most incidents are drawn, and the rest is counted."""
LABEL_LETTERS: Final = 22


def strip(records: Sequence[Remediation], since: datetime, until: datetime) -> str:
    """SVG; each mark leads to the incident's part of the page."""
    nodes = sorted({one.spec.node for one in records}, key=lambda node: (-_count(records, node), node))
    shown, left_out = sorted(nodes[:MOST_NODES]), max(0, len(nodes) - MOST_NODES)
    height = 10 + LANE * len(shown) + 30
    title = f"Incidents by node from {moment(since)} to {moment(until)}"
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
    ]
    for day in _days(since, until):
        x = _x(day, since, until)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="4" x2="{x:.1f}" y2="{height - 26}"/>')
        parts.append(f'<text class="soft" x="{x:.1f}" y="{height - 10}" text-anchor="middle">{day:%b %d}</text>')
    for index, node in enumerate(shown):
        top = 10 + LANE * index
        name = node if len(node) <= LABEL_LETTERS else f"{node[: LABEL_LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"
        parts.append(f'<text class="label" x="{LEFT - 8}" y="{top + 13}" text-anchor="end">{escape(name)}</text>')
        parts += [_mark(one, since, until, top) for one in records if one.spec.node == node]
    parts.append("</svg>")
    more = f'<p class="soft">{left_out} more nodes had incidents; they are in the table.</p>' if left_out else ""
    return f'<div class="wide" role="region" aria-label="incidents by node" tabindex="0">{"".join(parts)}</div>{more}'


def _count(records: Sequence[Remediation], node: str) -> int:
    return sum(one.spec.node == node for one in records)


def _days(since: datetime, until: datetime) -> list[datetime]:
    """Midnights, no more than ten."""
    first = (since + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    count = max(0, (until - first).days + 1)
    step = max(1, -(-count // 10))
    return [first + timedelta(days=day) for day in range(0, count, step) if first + timedelta(days=day) <= until]


def _x(time: datetime, since: datetime, until: datetime) -> float:
    part = (time - since) / (until - since)
    return LEFT + min(max(part, 0.0), 1.0) * (WIDTH - LEFT - RIGHT)


def _mark(record: Remediation, since: datetime, until: datetime, top: int) -> str:
    closed = stage_record(record.status, NodeStage.CLOSED)
    end = closed.ended_at if closed is not None and closed.ended_at is not None else until
    begin = _x(record.spec.fault.first_seen, since, until)
    width = max(6.0, _x(end, since, until) - begin)
    told = f"{fault_words(record)}: {record.status.outcome.value}, {moment(record.spec.fault.first_seen)}"
    return (
        f'<a href="#{escape(record.metadata.name)}"><title>{escape(told)}</title><rect class="mark {kind_of(record)}" '
        f'x="{begin:.1f}" y="{top}" width="{width:.1f}" height="16" rx="3"/></a>'
    )
