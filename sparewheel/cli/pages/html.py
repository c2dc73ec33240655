"""The frame of a page and its small parts. Whatever comes from the cluster is escaped here. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final

from sparewheel.cli.pages.style import STYLE

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""A name in the cluster must not become a script in somebody's browser, whatever is forgotten elsewhere."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Text that is HTML already."""

    html: str


def text(value: object) -> str:
    return value.html if isinstance(value, Raw) else escape(str(value))


def page(title: str, body: Iterable[str]) -> str:
    """The whole document."""
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
    )
    return head + "\n".join(body) + "\n</main>\n</body>\n</html>\n"


def badge(words: str, kind: str) -> Raw:
    """Says it in words; the colour is only help."""
    return Raw(f'<span class="badge {escape(kind)}">{escape(words)}</span>')


def link(target: str, words: str) -> Raw:
    """To another place of the same page."""
    return Raw(f'<a href="#{escape(target)}">{escape(words)}</a>')


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, label: str) -> str:
    """Wide ones scroll by themselves, never the page."""
    listed = list(rows)
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
    lines = ["<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in listed]
    return (
        f'<div class="wide" role="region" aria-label="{escape(label)}" tabindex="0"><table><thead><tr>{head}</tr>'
        f"</thead><tbody>\n{chr(10).join(lines)}\n</tbody></table></div>"
    )


def cards(items: Iterable[tuple[str, object, str]]) -> str:
    """Figures: a name, a value, and what is known about it."""
    made = [
        f'<div class="card"><div class="name">{escape(name)}</div><div class="value">{text(value)}</div>'
        f'<div class="note">{escape(note)}</div></div>'
        for name, value, note in items
    ]
    return f'<div class="cards">{"".join(made)}</div>'


def moment(time: datetime | None) -> str:
    """In UTC, to the second: people in several places read one page."""
    return "-" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def span(seconds: float | None) -> str:
    """``0.8 s``, ``14 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``; ``-`` when there is none."""
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, lower, lower_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // lower
            return f"{whole // size} {unit}" + (f" {rest} {lower_unit}" if rest else "")
    return f"{whole} s"
