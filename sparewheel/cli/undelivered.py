"""Messages that somebody should look after, as a table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from sparewheel.api.remediation import Remediation
from sparewheel.cli.tables import age
from sparewheel.remediation.decide.deliveries import DeliveryState, state, troubled


def undelivered(items: Sequence[Remediation], now: datetime) -> Table | None:
    """One row for each message that was given up or is refused so far; None when there is none."""
    found = [(item, message) for item in items for message in troubled(item)]
    if not found:
        return None
    columns = ("incident", "route", "for", "event", "state", "tries", "age", "why")
    table = Table(*columns, title="Messages not delivered", title_justify="left")
    for item, message in sorted(found, key=lambda pair: pair[1].created_at):
        lost = state(message) is DeliveryState.UNDELIVERED
        table.add_row(
            item.metadata.name,
            message.route,
            message.recipient or "platform",
            message.event,
            Text("given up" if lost else "tried again", style="red" if lost else "yellow"),
            str(message.attempts),
            age(message.created_at, now),
            Text(message.last_error),
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
