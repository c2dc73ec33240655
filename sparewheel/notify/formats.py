"""What a message looks like on each kind of route. Pure."""

from __future__ import annotations

from typing import Any

from sparewheel.api.remediation_policy import RouteFormat
from sparewheel.notify.port import Event

MAX_SLACK_TEXT_CHARACTERS = 3000
"""Slack refuses a section text over 3000 characters (Block Kit reference, section block)."""
MAX_JOBS_IN_TEXT = 20


def body(route_format: RouteFormat, event: Event) -> dict[str, Any]:
    """The JSON body for the route."""
    if route_format is RouteFormat.SLACK:
        return _slack(event)
    return event


def _slack(event: Event) -> dict[str, Any]:
    title = _escape(str(event["title"]))
    lines = [f"*{title}*", _escape(str(event["text"]))]
    jobs = event.get("jobs", [])
    lines += [
        f"• job {job['jobId']} of {_escape(job['user'])}: {_escape(job['what'])}" for job in jobs[:MAX_JOBS_IN_TEXT]
    ]
    if len(jobs) > MAX_JOBS_IN_TEXT:
        lines.append(f"• and {len(jobs) - MAX_JOBS_IN_TEXT} more jobs: `sparewheel timeline {event['remediation']}`")
    text = "\n".join(lines)
    if len(text) > MAX_SLACK_TEXT_CHARACTERS:
        text = text[: MAX_SLACK_TEXT_CHARACTERS - 1] + "…"
    return {"text": title, "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": text}}]}


def _escape(text: str) -> str:
    """Slack's three control characters (Formatting text for app surfaces)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
