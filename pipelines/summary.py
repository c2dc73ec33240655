"""A preview or a check for drift in Markdown, for a pull request and a job's page. Names only, never values. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pipelines.restarts import restarts
from pipelines.steps import Change, Look
from policies.judge import Verdict
from policies.model import Level

MOST_ROWS: Final = 60
MOST_LETTERS: Final = 60_000
"""GitHub takes 65,536 in a comment."""
WORDS: Final = {
    "create": "to create",
    "update": "to update",
    "delete": "to delete",
    "replace": "to replace",
    "create-replacement": "to create anew",
    "delete-replaced": "to delete after that",
    "import": "to import",
}


def marker(stack: str) -> str:
    """The first line, by which the comment of an earlier run is found."""
    return f"<!-- sparewheel preview {stack} -->"


def preview(stack: str, look: Look, judged: str, interrupted: Sequence[str]) -> str:
    """The comment on a pull request. ``judged``: what the policies say, as ``policies`` words it."""
    if look.error:
        return _cut(f"{marker(stack)}\n### Preview of `{stack}` failed\n\n```\n{_fenced(look.error)}\n```\n")
    head = f"{marker(stack)}\n### Preview of `{stack}`: {headline(look)}\n"
    parts = [head, _restarts(look.changes), _table(look.changes), judged]
    if interrupted:
        names = ", ".join(f"`{name}`" for name in interrupted[:10])
        parts.append(f"An earlier `up` was cut off at {names}; the next one goes on from there.")
    return _cut("\n".join(part for part in parts if part) + "\n")


def headline(look: Look) -> str:
    """The counts in a few words."""
    counts = [f"{count} {WORDS.get(operation, operation)}" for operation, count in look.counts.items()]
    return ", ".join([*(counts or ["no changes"]), f"{look.unchanged} unchanged"])


def policies(verdict: Verdict, resources: int, *, production: bool) -> str:
    """What the policies say."""
    kind = "production" if production else "development"
    open_ones = [one for one in verdict.findings if not one.excepted]
    mandatory = sum(one.level is Level.MANDATORY for one in open_ones)
    said = f"**Policies** ({kind}, {resources} resources): "
    if not open_ones:
        return f"{said}no finding."
    said += f"{mandatory} mandatory, {len(open_ones) - mandatory} advisory.\n\n"
    rows = [f"| {one.level.value} | `{one.rule}` | {cell(one.resource)} | {cell(one.sentence)} |" for one in open_ones]
    return said + "\n".join(["| level | rule | resource | what is wrong |", "| --- | --- | --- | --- |", *rows])


def drift(stack: str, declared: Look, live: Look, interrupted: Sequence[str]) -> str:
    """The alert, in plain text: what is not as the program declares it."""
    lines: list[str] = []
    for look, what in (
        (declared, "the program declares other than what was last applied"),
        (live, "the cluster is other than what was last applied"),
    ):
        if look.error:
            lines.append(f"{stack}: could not be looked at, so nothing is known about drift: {look.error}")
        elif look.changes:
            lines.append(f"{stack}: {what}: {headline(look)}")
            lines += [f"  {line(change)}" for change in look.changes[:MOST_ROWS]]
    if interrupted:
        lines.append(
            f"{stack}: an `up` was cut off at {', '.join(interrupted[:10])}; `make ci-up STACK={stack}` goes on"
        )
    return "\n".join(lines)


def line(change: Change) -> str:
    """One change in plain text."""
    fields = f" ({', '.join(change.fields)})" if change.fields else ""
    return f"{change.operation} {change.resource}{fields}"


def _restarts(changes: Sequence[Change]) -> str:
    said = restarts(changes)
    return "\n".join(["**What restarts**", "", *(f"- {one}" for one in said), ""]) if said else ""


def _table(changes: Sequence[Change]) -> str:
    if not changes:
        return ""
    rows = [
        f"| {change.operation} | {cell(change.resource)} | {cell(', '.join(change.fields))} |"
        for change in changes[:MOST_ROWS]
    ]
    more = [f"\nand {len(changes) - MOST_ROWS} more; the job's log has them all.\n"] if len(changes) > MOST_ROWS else []
    return "\n".join(["| change | resource | inputs |", "| --- | --- | --- |", *rows, *more, ""])


def cell(text: str) -> str:
    """Text that can't break out of its cell, mention a person or become HTML."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("`", "'")
    return safe.replace("@", "@\u200b").replace("\n", " ")


def _fenced(text: str) -> str:
    return text.replace("```", "'''")


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}\n\n(cut here; the job's log has all)\n"
