"""Levels, environments and exceptions: what a finding does, and what becomes of an exception."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.judge import ENDED, UNUSED, Verdict, judge
from policies.model import UNKNOWN, Level, Resource
from policies.settings import Environment, Settings, SettingsError, parse
from tests.unit.policies import examples as e

TODAY = e.NOW.date()
RULE = "pool-has-a-spare"
WITHOUT = [e.pool(spares=0), e.policy()]


def environment(**fields: Any) -> Environment:
    return Environment.model_validate(fields)


def exception(resource: str = "GpuPool/gpu", until: date = TODAY, rule: str = RULE) -> dict[str, Any]:
    return {"rule": rule, "resource": resource, "reason": "bought next quarter", "until": until}


def names(verdict: Verdict) -> list[str]:
    return [one.rule for one in verdict.findings if not one.excepted]


def judged(resources: list[Resource], **fields: Any) -> Verdict:
    return judge(resources, environment(**fields), replace(e.GIVEN, production=False))


def test_a_mandatory_finding_stops_and_an_advisory_one_does_not() -> None:
    assert judged(WITHOUT).stops
    told = judged(WITHOUT, levels={RULE: "advisory"})
    assert (names(told), told.stops) == ([RULE], False)
    assert names(judged(WITHOUT, levels={RULE: "disabled"})) == []


@pytest.mark.parametrize("resource", ["GpuPool/gpu", "GpuPool/*", "*"])
def test_an_exception_covers_a_finding_until_its_last_day(resource: str) -> None:
    covered = judged(WITHOUT, exceptions=[exception(resource)])
    assert (names(covered), covered.stops) == ([], False)
    assert [one.excepted for one in covered.findings] == ["bought next quarter"]
    ended = judged(WITHOUT, exceptions=[exception(resource, e.NOW.date() - timedelta(days=1))])
    assert names(ended) == [RULE, ENDED]
    assert ended.stops


def test_an_ended_exception_is_a_finding_even_where_nothing_is_wrong_any_more() -> None:
    ended = judged([e.pool(), e.policy()], exceptions=[exception(until=e.NOW.date() - timedelta(days=1))])
    assert names(ended) == [ENDED]
    assert ended.stops


def test_an_exception_that_fits_nothing_is_a_finding() -> None:
    verdict = judged(WITHOUT, exceptions=[exception("GpuPool/other")])
    assert names(verdict) == [RULE, UNUSED]


def test_of_a_part_of_a_stack_nobody_can_say_that_an_exception_fits_nothing() -> None:
    given = replace(e.GIVEN, whole=False)
    assert names(judge([e.pool()], environment(exceptions=[exception()]), given)) == []


def test_an_exception_from_a_rule_that_was_not_asked_is_not_called_unused() -> None:
    kept = exception(rule="drill-passed-lately")
    verdict = judge([e.pool(), e.policy()], environment(exceptions=[kept]), e.GIVEN)
    assert names(verdict) == []
    assert verdict.not_judged == (("drill-passed-lately", "no records of incidents were given"),)


def test_a_resource_that_is_not_known_yet_is_not_judged_and_nothing_beside_it_is_missing() -> None:
    unknown = Resource("kubernetes:sparewheel.dev/v1alpha1:RemediationPolicy", "default", {"spec": UNKNOWN})
    verdict = judged([e.pool(), unknown])
    assert names(verdict) == []
    assert verdict.not_judged == (("RemediationPolicy/default", "its spec isn't known yet, or hidden"),)


def test_rules_of_production_are_asked_there_alone() -> None:
    resources = [e.pool(protect=False), e.policy(), e.service(type="NodePort")]
    assert names(judged(resources)) == []
    production = judge(resources, environment(), replace(e.GIVEN, production=True))
    assert names(production) == ["pools-are-protected", "login-from-known-places"]


@given(st.sampled_from(list(Level)), st.booleans(), st.integers(-3, 3))
def test_what_stops_is_mandatory_and_uncovered(level: Level, there: bool, days: int) -> None:
    until = e.NOW.date() + timedelta(days=days)
    exceptions = [exception(until=until)] if there else []
    verdict = judged(WITHOUT, levels={RULE: level}, exceptions=exceptions)
    covered = there and days >= 0
    ended = there and days < 0
    assert verdict.stops == (ended or (level is Level.MANDATORY and not covered))


def test_an_environment_that_is_not_named_is_production_without_exceptions() -> None:
    settings = parse({"environments": {"try": {"kind": "development"}}}, ["a"])
    assert settings.of("try").kind == "development"
    assert settings.of("prod") == Environment()
    assert Settings().of("").kind == "production"


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"environments": {"a": {"levels": {"no-such": "advisory"}}}}, "environments.a: there is no rule no-such"),
        ({"environments": {"a": {"levels": {"r": "fatal"}}}}, "environments.a.levels.r"),
        ({"environments": {"a": {"exceptions": [{"rule": "r", "resource": "*", "until": "2027-01-01"}]}}}, "reason"),
        ({"environments": {"a": {"exceptions": [{**exception(rule="r"), "until": "soon"}]}}}, "until"),
        ({"environments": {"a": {"exceptions": [{**exception(rule="r"), "reason": "because"}]}}}, "reason"),
        ({"stacks": {}}, "no such setting"),
        (["a"], "settings of its own"),
    ],
)
def test_wrong_settings_are_named(raw: object, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        parse(raw, ["r"])
