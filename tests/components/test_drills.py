"""The scheduled drill: off by default, a CronJob per pool where the stack asks for it, and what its account may do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.components.conftest import Run

DRILL = {"schedule": "0 9 1,15 * *"}


def with_drill(raw: dict[str, Any], **fields: Any) -> dict[str, Any]:
    raw["remediation"] |= {"agent": {"allow_drills": True}, "drill": {**DRILL, **fields}}
    return raw


def two_pools(raw: dict[str, Any]) -> None:
    for pool, fleet in (({**raw["pools"][0]}, "a"), ({**raw["pools"][0], "name": "more"}, "b")):
        pool["backend"] = {"kind": "warm", "node_selector": {"fleet": fleet}}
        raw["pools"] = [*([] if fleet == "a" else raw["pools"]), pool]


def test_off_unless_the_stack_asks(run_stack: Run, raw: dict[str, Any]) -> None:
    stack = run_stack(raw)
    assert stack.of_type(":CronJob") == []
    assert not any("pods/exec" in rule["resources"] for role in stack.of_type(":Role") for rule in role.inputs["rules"])


def test_each_pool_is_drilled_by_the_command_line(run_stack: Run, raw: dict[str, Any]) -> None:
    two_pools(raw)
    jobs = sorted(run_stack(with_drill(raw, limit_seconds=240)).of_type(":CronJob"), key=lambda job: job.name)
    assert [job.inputs["metadata"]["name"] for job in jobs] == ["sparewheel-drill-gpu", "sparewheel-drill-more"]
    for job, pool in zip(jobs, ("gpu", "more"), strict=True):
        spec = job.inputs["spec"]
        assert (spec["schedule"], spec["concurrencyPolicy"]) == (DRILL["schedule"], "Forbid")
        run = spec["jobTemplate"]["spec"]
        assert run["backoffLimit"] == 0, "a drill that failed is not simply tried again"
        assert run["activeDeadlineSeconds"] > 240
        command = run["template"]["spec"]["containers"][0]["command"]
        assert command[2:] == ["sparewheel.cli", "drill", f"--pool={pool}", "--fault=xid79", "--limit=240", "--note"]
        assert run["template"]["spec"]["restartPolicy"] == "Never"


def test_only_the_named_pools(run_stack: Run, raw: dict[str, Any]) -> None:
    two_pools(raw)
    job = run_stack(with_drill(raw, pools=["more"])).one(":CronJob")
    assert job.inputs["metadata"]["name"] == "sparewheel-drill-more"


def test_its_account_may_only_what_a_drill_needs(run_stack: Run, raw: dict[str, Any]) -> None:
    stack = run_stack(with_drill(raw))
    roles = [role for kind in (":Role", ":ClusterRole") for role in stack.of_type(kind) if "drill" in role.name]
    rights = {
        (one, verb)
        for role in roles
        for rule in role.inputs["rules"]
        for one in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {right for right in rights if right[1] not in ("get", "list")} == {
        ("gpupools/status", "patch"),
        ("pods/exec", "create"),
    }
    (here,) = [role for role in roles if any("pods/exec" in rule["resources"] for rule in role.inputs["rules"])]
    assert here.inputs["metadata"]["namespace"] == "sparewheel"


@pytest.mark.parametrize(
    ("drill", "allow", "says"),
    [
        (DRILL, False, "remediation.drill: the agents act on no drill; set remediation.agent.allow_drills to true"),
        ({**DRILL, "pools": ["cpu"]}, True, "remediation.drill.pools: there is no pool cpu; the pools are ['gpu']"),
        ({"schedule": "monthly"}, True, "remediation.drill.schedule:"),
        ({"schedule": "0 9 1,15 * *", "fault": "fire"}, True, "remediation.drill.fault:"),
    ],
)
def test_a_wrong_one(run_stack: Run, raw: dict[str, Any], drill: dict[str, Any], allow: bool, says: str) -> None:
    raw["remediation"] |= {"agent": {"allow_drills": allow}, "drill": drill}
    with pytest.raises(Exception, match="wrong in the stack's config") as error:
        run_stack(raw)
    assert says in str(error.value)
