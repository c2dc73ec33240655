"""Messages that somebody should look after, as a table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from sparewheel.api.remediation import Delivery, Remediation
from sparewheel.cli.tables import age
from sparewheel.remediation.decide.deliveries import DeliveryState, state, troubled

ERROR_CHARACTERS = 80


def undelivered(items: Sequence[Remediation], now: datetime) -> Table | None:
    """One row for each route with messages that were given up or are refused so far; None when there is none."""
    routes: dict[str, list[Delivery]] = {}
    for message in sorted((one for item in items for one in troubled(item)), key=lambda one: one.created_at):
        routes.setdefault(message.route or "none", []).append(message)
    if not routes:
        return None
    why = Column("last error", no_wrap=True, overflow="ellipsis")
    title = "Messages not delivered (each of them: -o json)"
    table = Table("route", "given up", "tried again", "oldest", why, title=title, title_justify="left")
    for route, messages in routes.items():
        lost = sum(state(message) is DeliveryState.UNDELIVERED for message in messages)
        table.add_row(
            route,
            Text(str(lost), style="red" if lost else ""),
            Text(str(len(messages) - lost), style="yellow" if lost < len(messages) else ""),
            age(messages[0].created_at, now),
            Text(" ".join(messages[-1].last_error.split())[:ERROR_CHARACTERS]),
        )
    return table


def undelivered_json(items: Sequence[Remediation]) -> list[dict[str, Any]]:
    """The same for scripts: each message as it stands in its record, with the record's name and its state."""
    return [
        {
            "remediation": item.metadata.name,
            "state": state(message).value,
            **message.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        for item in items
        for message in troubled(item)
    ]
