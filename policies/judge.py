"""Puts resources to the rules, with the levels and exceptions of an environment. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import fnmatchcase
from typing import Final

from policies.model import Finding, Given, Level, Resource, Rule
from policies.rules import RULES
from policies.settings import Environment, PolicyException
from policies.values import hidden

STACK: Final = "the stack"
ENDED: Final = "exception-ended"
UNUSED: Final = "exception-unused"
ABOUT_EXCEPTIONS: Final = {
    ENDED: (Level.MANDATORY, "No exception is past its last day."),
    UNUSED: (Level.ADVISORY, "Every exception fits a finding."),
}
"""Findings about the exceptions themselves: level, and what is asked for."""

NAMES: Final = (*(rule.name for rule in RULES), *ABOUT_EXCEPTIONS)


@dataclass(frozen=True, slots=True)
class Verdict:
    """``findings`` with those that are excepted; ``not_judged``: rules and resources that could not be, and why."""

    findings: tuple[Finding, ...]
    not_judged: tuple[tuple[str, str], ...]

    @property
    def stops(self) -> bool:
        """Whether something mandatory is wrong and no exception covers it."""
        return any(one.level is Level.MANDATORY and not one.excepted for one in self.findings)


def judge(
    resources: Sequence[Resource], environment: Environment, given: Given, rules: Sequence[Rule] = RULES
) -> Verdict:
    """Every finding, in the rules' order, then those about exceptions."""
    found: list[Finding] = []
    unknown = [one for one in resources if hidden(one.inputs.get("spec"))]
    not_judged = [(one.label, "its spec isn't known yet, or hidden") for one in unknown]
    known = [one for one in resources if one not in unknown]
    given = replace(given, whole=given.whole and not unknown)
    for rule in rules:
        level = level_of(rule, environment)
        if level is Level.DISABLED or (rule.production_only and not given.production):
            continue
        if rule.needs_records and not given.records:
            not_judged.append((rule.name, "no records of incidents were given"))
            continue
        for resource, text in rule.run(known, given):
            label, urn = (resource.label, resource.urn) if resource else (STACK, "")
            finding = Finding(rule.name, level, label, urn, text)
            found.append(excepted(finding, environment.exceptions, given.now.date()))
    skipped = {name for name, _ in not_judged}
    about = about_exceptions(found, environment, given, skipped)
    return Verdict((*found, *about), tuple(not_judged))


def level_of(rule: Rule, environment: Environment) -> Level:
    return environment.levels.get(rule.name, rule.level)


def fits(exception: PolicyException, finding: Finding) -> bool:
    return exception.rule == finding.rule and fnmatchcase(finding.resource, exception.resource)


def excepted(finding: Finding, exceptions: Sequence[PolicyException], today: date) -> Finding:
    """The finding, with the reason of the first exception that covers it today."""
    reason = next((one.reason for one in exceptions if today <= one.until and fits(one, finding)), "")
    return Finding(finding.rule, finding.level, finding.resource, finding.urn, finding.sentence, reason)


def about_exceptions(
    findings: Sequence[Finding], environment: Environment, given: Given, skipped: set[str]
) -> Iterator[Finding]:
    """One that has ended is a finding; so is one that fits nothing in a whole stack, of a rule that was asked."""
    for one in environment.exceptions:
        what = f"exception from {one.rule} for {one.resource}"
        if given.now.date() > one.until:
            text = f"{what} ended on {one.until}; put right what it covered, then take it off"
            yield from _about(ENDED, one.resource, text, environment)
        elif given.whole and one.rule not in skipped and not any(fits(one, finding) for finding in findings):
            text = f"{what} fits no finding; take it off stacks/policies.yaml, or write the resource as findings do"
            yield from _about(UNUSED, one.resource, text, environment)


def _about(name: str, resource: str, text: str, environment: Environment) -> Iterator[Finding]:
    level = environment.levels.get(name, ABOUT_EXCEPTIONS[name][0])
    if level is not Level.DISABLED:
        yield Finding(name, level, resource, "", text)
