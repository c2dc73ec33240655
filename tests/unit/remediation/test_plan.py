"""The previewed healing: it says what the decisions would do, and knows when it doesn't know."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from rich.console import Console

from sparewheel.api.names import LABEL_POOL, LABEL_ROLE, ROLE_SPARE
from sparewheel.api.remediation import FenceKind, NodeStage, Outcome
from sparewheel.api.remediation_policy import RemediationPolicySpec, RemediationPolicyStatus
from sparewheel.cli import tables
from sparewheel.remediation.controller.preview import selects
from sparewheel.remediation.decide.observations import PodView, Unknown
from sparewheel.remediation.decide.plan import Budget, Known, Preview, preview
from tests.support.incidents import T0, at, claimed, fenced, job, node, pool, stage, worker

OTHER = PodView("web-0", "team", "u2")


def known(**fields: Any) -> Known:
    values: dict[str, Any] = {
        "node": node(),
        "pods": (worker(), OTHER),
        "pool": pool(),
        "policy": RemediationPolicySpec(),
        "incidents": (),
        "jobs": (job(), job(job_id=8, requeue=False), job(job_id=9, nodes=frozenset({"gpu-1"}))),
        "budgets": (),
        "spare": "spare-1",
        "spare_why": "same type",
        "expedited": True,
        "now": T0,
        **fields,
    }
    return Known(**values)


def seen(**fields: Any) -> Preview:
    return preview(known(**fields))


def test_all_is_well() -> None:
    found = seen()
    assert (found.refused, found.veto, found.slot, found.breaker_open) == ("", "", "", False)
    assert [(one.job_id, one.requeues) for one in found.jobs] == [(7, True), (8, False)], "job 9 is elsewhere"
    assert found.jobs[1].why_not == "it was submitted with --no-requeue"
    assert found.steps == (
        "cordon and taint node gpu-7",
        "set Slurm node gpu-0 DOWN: its jobs get up to 120 s to save and are requeued ahead of the queue",
        "claim spare spare-1, join it tainted, check it",
        "evict 1 other pods; budgets are honoured for up to 300 s",
        "delete the worker pod of gpu-0 once no job process is left, or the grace is over",
        "admit spare-1, quarantine gpu-7's host",
    )


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"pool": None, "node": node(labels={})}, "node gpu-7 is in no GPU pool"),
        ({"pool": pool(paused=True)}, "pool gpu is paused"),
        ({"node": node(labels={LABEL_POOL: "gpu", LABEL_ROLE: ROLE_SPARE})}, "node gpu-7 takes no work of pool gpu"),
        ({"incidents": (fenced(),)}, "incident gpu-7-xid-79-0 is open for it already"),
    ],
)
def test_nothing_would_be_done(fields: dict[str, Any], says: str) -> None:
    found = seen(**fields)
    assert (found.refused, found.steps) == (says, ())


def test_what_holds_it_up() -> None:
    assert seen(pods=(worker(), replace(OTHER, veto=True))).steps[-1] == "wait for the veto of pod team/web-0"
    assert "503" in seen(pods=Unknown("list Pod: 503")).veto
    none = seen(spare=None, spare_why="s: it is a lemon")
    assert none.steps[-1] == "wait for a spare (s: it is a lemon); nothing is deleted"
    other = claimed(fenced("other"))
    other.spec.node = "gpu-9"
    full = seen(incidents=(other,))
    assert (full.slots_used, full.slots) == (1, 1)
    assert "a replacement slot of pool gpu (1 of 1 in use: other)" in full.steps[2]


def test_the_breaker_and_an_older_slurm() -> None:
    struck = fenced("other")
    struck.spec.node, struck.status.outcome = "gpu-9", Outcome.HEALED
    struck.status.stages = [stage(NodeStage.FENCED, -10, -9)]
    found = seen(incidents=(struck,), policy=RemediationPolicySpec(max_fenced_nodes=1))
    assert (found.breaker_open, found.fence, found.fenced, found.fence_limit) == (True, FenceKind.DRAIN, 1, 1)
    assert "the breaker is open" in found.steps[1]
    assert "requeue its batch jobs with top priority" in seen(expedited=False).steps[1]
    assert seen(pods=(OTHER,)).fence == FenceKind.NONE


def test_only_fences_that_the_breaker_counts_are_said_to_be_fences() -> None:
    """One called off before its strike fenced nothing; one that a person closed the breaker over counts no more."""
    struck, called_off = fenced("struck"), fenced("called-off")
    struck.spec.node, called_off.spec.node = "gpu-8", "gpu-9"
    called_off.status.outcome, called_off.status.owned.slurm_struck_at = Outcome.CANCELLED, None
    found = seen(incidents=(struck, called_off), now=at(60))
    assert (found.fenced, found.fenced_nodes, found.fence_window_seconds) == (1, ("gpu-8",), 300)
    assert "closed (1 of 10 fences used within the last 300 s: gpu-8)" in printed(found)
    closed = RemediationPolicyStatus(closed_at=at(30))
    assert seen(incidents=(struck, called_off), now=at(60), breaker=closed).fenced == 0


def test_budgets_that_block_are_named_and_the_others_are_not() -> None:
    tight = Budget("team", "web", 0, ("team/web-0",))
    loose = Budget("team", "loose", 1, ("team/web-0",))
    workers = Budget("slurm", "workers", 0, ("slurm/gpu-0",))
    assert seen(budgets=(tight, loose, workers)).budgets == (tight,), "a worker is deleted, not evicted"
    assert seen(budgets=Unknown("403")).budgets_unknown == "403"


def test_not_knowing_is_said() -> None:
    found = seen(jobs=Unknown("slurmrestd: no answer"))
    assert (found.jobs, found.jobs_unknown) == ((), "slurmrestd: no answer")


def test_dry_run() -> None:
    assert seen(pool=pool(dry_run=True)).steps == ("dry run: would cordon and taint node gpu-7", "nothing is touched")


def printed(found: Preview) -> str:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(tables.plan(asdict(found)))
    return capture.get()


def test_as_a_table() -> None:
    text = printed(seen(budgets=(Budget("team", "web", 0, ("team/web-0",)),)))
    for words in (
        "train of ada is requeued",
        "does not come back: it was submitted",
        "spare-1 (same type)",
        "team/web",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}, True),
    ],
)
def test_selectors(selector: dict[str, Any], expected: bool) -> None:
    assert selects(selector, {"a": "1"}) is expected
