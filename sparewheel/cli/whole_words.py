"""Tables on narrow terminals: cells go on in further lines, but no name in them is cut or broken. Pure."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len
from rich.table import Column, Table
from rich.text import Text

LONGEST_WORD: Final = 63
"""Longer ones are addresses and paths: they are broken."""
NOTHING: Final = frozenset({"", "-"})


def whole_words(table: Table, width: int) -> Table:
    """The same table, each column at least as wide as its longest word, and wider as far as there is room.

    Where even that is wider than ``width``, columns in which nothing stands are left out, then the lines.
    """
    if _room(table, width) < 0:
        table.columns = [column for column in table.columns if {_text(cell) for cell in column.cells} - NOTHING]
    if _room(table, width) < 0:
        table.box, table.padding, table.pad_edge = None, (0, 2, 0, 0), False
    room = max(0, _room(table, width))
    by_need = sorted(table.columns, key=lambda column: _wish(column) - _least(column))
    for index, column in enumerate(by_need):
        more = min(_wish(column) - _least(column), room // (len(by_need) - index))
        column.min_width = column.max_width = _least(column) + more  # a plain width is not kept where room lacks
        column.overflow = "fold"
        room -= more
    return table


def _room(table: Table, width: int) -> int:
    """What is left of the width when each column is as narrow as it may be; below 0 when that is too wide."""
    count = len(table.columns)
    between = 3 * count + 1 if table.box else 2 * count
    return width - between - sum(map(_least, table.columns))


def _least(column: Column) -> int:
    words = [word for cell in (column.header, *column.cells) for word in _text(cell).split()]
    return min(max(map(cell_len, words), default=0), LONGEST_WORD)


def _wish(column: Column) -> int:
    lines = [line for cell in (column.header, *column.cells) for line in _text(cell).splitlines()]
    return max(map(cell_len, lines), default=0)


def _text(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)
