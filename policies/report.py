"""The verdict as a table for people and as JSON for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.table import Table

from policies.judge import Verdict
from policies.model import Finding, Level


def table(verdict: Verdict) -> Table:
    """One row per finding, what stops first."""
    found = Table(box=None, pad_edge=False)
    for title in ("level", "rule", "resource", "what is wrong"):
        found.add_column(title, overflow="fold", no_wrap=title in ("level", "rule"))
    for one in sorted(verdict.findings, key=_weight):
        said = f"{one.sentence} (accepted: {one.excepted})" if one.excepted else one.sentence
        found.add_row("excepted" if one.excepted else one.level.value, one.rule, one.resource, said)
    return found


def summary(verdict: Verdict, resources: int, environment: str, *, production: bool) -> str:
    """One line that ends the table."""
    open_ones = [one for one in verdict.findings if not one.excepted]
    mandatory = sum(one.level is Level.MANDATORY for one in open_ones)
    kind = "production" if production else "development"
    where = f"{environment or 'no environment named'}, judged as {kind}"
    excepted = len(verdict.findings) - len(open_ones)
    counts = f"{mandatory} mandatory, {len(open_ones) - mandatory} advisory, {excepted} excepted"
    return f"{resources} resource(s) of {where}: {counts}"


def as_json(verdict: Verdict, resources: int, environment: str, *, production: bool) -> dict[str, Any]:
    return {
        "environment": environment,
        "production": production,
        "resources": resources,
        "stops": verdict.stops,
        "findings": [asdict(one) for one in sorted(verdict.findings, key=_weight)],
        "notJudged": [{"what": what, "why": why} for what, why in verdict.not_judged],
    }


def _weight(one: Finding) -> tuple[bool, bool, str, str]:
    return bool(one.excepted), one.level is not Level.MANDATORY, one.rule, one.resource
