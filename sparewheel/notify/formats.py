"""What a message looks like on each kind of route. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any

from sparewheel.notify.port import Event

MAX_SLACK_SECTION_CHARACTERS = 3000
"""Slack refuses a section text over 3000 characters (Block Kit reference, section block)."""
MAX_SLACK_SECTIONS = 10
"""Slack takes 50 blocks a message; nobody reads so many."""
MAX_JOBS_IN_TEXT = 20
MAX_SUBJECT_CHARACTERS = 200


def lines(event: Event) -> list[str]:
    """The message as text below its title: what happened, what becomes of each job, what is said beside it."""
    jobs: list[dict[str, Any]] = event.get("jobs", [])
    found = [str(event["text"])]
    found += [f"• job {job['jobId']} of {job['user']}: {job['what']}" for job in jobs[:MAX_JOBS_IN_TEXT]]
    more = len(jobs) - MAX_JOBS_IN_TEXT + int(event.get("moreJobs", 0))
    if more > 0:
        found.append(f"• and {more} more jobs: `sparewheel timeline {event['remediation']}`")
    note = str(event.get("note", ""))
    return [*found, note] if note else found


# -------------------------------------------------------------------- Slack
def slack(event: Event, mention: str) -> dict[str, Any]:
    """An incoming webhook's body. ``mention``: member id of the owner; empty: nobody is mentioned."""
    title = _escape(str(event["title"]))
    to = f"<@{mention}> " if mention else ""
    text = "\n".join([f"{to}*{title}*", *(_escape(line) for line in lines(event))])
    sections = _pieces(text, MAX_SLACK_SECTION_CHARACTERS)
    if len(sections) > MAX_SLACK_SECTIONS:
        last = sections[MAX_SLACK_SECTIONS - 1]
        sections = [*sections[: MAX_SLACK_SECTIONS - 1], f"{last[: MAX_SLACK_SECTION_CHARACTERS - 1]}…"]
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": section}} for section in sections]
    return {"text": f"{to}{title}", "blocks": blocks}


def _pieces(text: str, size: int) -> list[str]:
    """Cut at the end of a line or a word where there is one."""
    found: list[str] = []
    while len(text) > size:
        at = max(text.rfind("\n", 1, size), text.rfind(" ", 1, size))
        at = at if at > size // 2 else size
        found.append(text[:at])
        text = text[at:].lstrip()
    return [*found, text]


def _escape(text: str) -> str:
    """Slack's three control characters (Formatting text for app surfaces)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# -------------------------------------------------------------------- mail
def mail(event: Event, key: str, sender: str, to: Sequence[str], sent_at: datetime) -> EmailMessage:
    """Plain text. The Message-ID is made of the key: a mail sent twice is one. Mails of one trouble are a thread."""
    found = EmailMessage()
    domain = sender.rpartition("@")[2]
    found["From"], found["To"] = sender, ", ".join(to)
    found["Subject"] = " ".join(str(event["title"]).split())[:MAX_SUBJECT_CHARACTERS]
    found["Date"] = format_datetime(sent_at)
    found["Message-ID"] = f"<{_digest(key)}@{domain}>"
    found["References"] = f"<{_digest(str(event.get('alert', '')))}@{domain}>"
    found["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office answers, please
    where = f"Incident {event['remediation']}" if event.get("remediation") else "Sparewheel"
    found.set_content("\n\n".join([*lines(event), f"-- \n{where}, {event['time']}"]) + "\n")
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
