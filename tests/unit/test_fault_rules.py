"""What a stack says about faults, as the cluster and the agents are told it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from sparewheel.api.faults import Action, Sighting
from sparewheel.faults.patterns import closest_first, is_code_or_pattern
from sparewheel.remediation.decide.policy import ruling
from stacks.faults import CODES, FaultRule, FaultRules, Repeat, agent_overrides, fault_policies
from tests.support.incidents import fault

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ADAPTER: TypeAdapter[dict[str, FaultRule]] = TypeAdapter(FaultRules)


def test_an_action_alone_is_short_for_a_rule() -> None:
    short = ADAPTER.validate_python({"XID 63": "replace"})
    assert short == ADAPTER.validate_python({"XID 63": {"action": "replace"}})
    (policy,) = fault_policies(short)
    assert (policy.code, policy.action, policy.repeats) == ("XID 63", Action.REPLACE, None)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("XID 63", True),
        ("XID *", True),
        ("SXID 20034", True),
        ("GPU_*", True),
        ("NODE_LOST", True),
        ("XID 6*", False),
        ("XID 063", False),
        ('"XID 63"', False),
        ("GPU*", False),
        ("*", False),
        ("FAN_*", False),
    ],
)
def test_codes_and_patterns(text: str, *, right: bool) -> None:
    """soperator 1973: a name in quotes never matches anything; here it is refused."""
    assert is_code_or_pattern(text, CODES) is right


codes = st.sampled_from(["XID 63", "XID 79", "XID *", "GPU_*", "GPU_MISSING"])
often = st.none() | st.just([]) | st.just([Repeat(count=3, window_seconds=600, action=Action.REPLACE)])
rules = st.builds(FaultRule, action=st.none() | st.sampled_from(Action), repeats=often)
tables = st.dictionaries(codes, rules, max_size=4)


@example(
    pool={"XID *": FaultRule()},
    stack={"XID *": FaultRule(action=Action.IGNORE), "XID 63": FaultRule(action=Action.RECORD)},
    code="XID 63",
)
@given(pool=tables, stack=tables, code=st.sampled_from(["XID 63", "XID 79", "XID 13", "GPU_MISSING", "GPU_OFF_BUS"]))
def test_the_agents_and_the_controller_read_the_same_from_the_same_rules(
    pool: dict[str, FaultRule], stack: dict[str, FaultRule], code: str
) -> None:
    catalogued = fault(code, action=Action.RECORD)
    table = agent_overrides(pool, stack)
    closest = closest_first(table, code)
    by_agent = table[closest[0]] if closest else Action.RECORD
    ruled, seen_thrice = fault_policies(pool), Sighting(time=NOW, count=3)
    at_last = ruling(catalogued.model_copy(update={"recent": [seen_thrice]}), ruled, fault_policies(stack)).action
    once = ruling(catalogued, ruled, fault_policies(stack)).action
    assert by_agent is (Action.RECORD if once is Action.IGNORE and at_last is not once else once)


def test_what_is_ignored_unless_it_repeats_is_seen() -> None:
    repeats = {"repeats": [{"count": 3, "window_seconds": 600, "action": "replace"}]}
    rules = ADAPTER.validate_python({"XID 43": repeats, "XID 79": repeats, "XID 13": {"action": "ignore", **repeats}})
    assert agent_overrides({}, rules) == {"XID 43": Action.RECORD, "XID 13": Action.RECORD}
