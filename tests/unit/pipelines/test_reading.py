"""What the engine says becomes counts, a comment, an alert, and the next step where it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipelines import summary
from pipelines.refusals import next_step
from pipelines.steps import Change, Look, errors_of, read_look, short_name

URN = "urn:pulumi:prod::sparewheel::sparewheel:platform:Slurm$kubernetes:core/v1:ConfigMap::slurm-conf"
LOCKED = (
    "the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end or delete the lock file "
    "with `pulumi cancel`.\n  s3://b/.pulumi/locks/organization/sparewheel/prod/9c.json: created by ci@runner-7 "
    "(pid 4899) at 2026-11-30T22:23:38Z"
)


def step(operation: str, urn: str = URN, **more: Any) -> dict[str, Any]:
    return {"op": operation, "urn": urn, **more}


def answer(*steps: dict[str, Any], diagnostics: tuple[str, ...] = (), same: int = 0) -> str:
    messages = [{"message": message, "severity": "error"} for message in diagnostics]
    return json.dumps({"steps": list(steps), "diagnostics": messages, "changeSummary": {"same": same}})


def test_changes_are_named_by_type_and_name_with_their_inputs() -> None:
    look = read_look(0, answer(step("update", diffReasons=["data"]), step("same", "urn:s"), same=1), "")
    assert look == Look((Change("update", "kubernetes:core/v1:ConfigMap slurm-conf", ("data",)),), 1, "", look.text)
    assert summary.headline(look) == "1 to update, 1 unchanged"


def test_what_differs_is_found_where_the_engine_does_not_say_it() -> None:
    """As for Kubernetes objects in a refresh."""
    old = {"inputs": {"spec": {"size": 2, "selector": {"a": "b"}}}, "outputs": {"metadata": {"resourceVersion": "1"}}}
    new = {"inputs": {"spec": {"size": 1, "selector": {"a": "b"}}}, "outputs": {"metadata": {"resourceVersion": "2"}}}
    look = read_look(0, answer(step("update", oldState=old, newState=new)), "")
    assert look.changes[0].fields == ("spec.size",)
    look = read_look(0, answer(step("update", oldState={"outputs": {"a": {"b": 1}}}, newState={"outputs": {}})), "")
    assert look.changes[0].fields == ("a.b",)


def test_what_refresh_finds_unchanged_is_no_change() -> None:
    assert read_look(0, answer(step("refresh"), step("read"), same=2), "").changes == ()


def test_changes_where_none_were_expected_are_changes_and_no_failure() -> None:
    look = read_look(7, answer(step("update")), "error: no changes were expected for refresh but changes were proposed")
    assert look.changes
    assert not look.error


@pytest.mark.parametrize(
    ("code", "out", "err", "error"),
    [
        (6, "", "error: no stack named 'prod' found", "no stack named 'prod' found"),
        (1, answer(step("same"), diagnostics=("error: pools: bad\n",)), "", "pools: bad"),
        (1, answer(step("update")), "error: lost the state", "lost the state"),
        (1, "", "", "exit code 1"),
        (0, "[]", "", "names no resource"),
        (0, json.dumps({"steps": None}), "", "names no resource"),
    ],
)
def test_a_look_that_failed_is_never_no_change(code: int, out: str, err: str, error: str) -> None:
    assert error in read_look(code, out, err).error


def test_the_engines_last_word_and_its_warnings_are_left_out() -> None:
    said = [
        "warning: using pulumi-language-python from $PATH\n",
        "error: one setting is wrong in the stack's config:\n  pools.0.size: is missing\n",
        "error: an unhandled error occurred: program exited with non-zero exit code: 1\n",
    ]
    assert errors_of(said) == "one setting is wrong in the stack's config:\n  pools.0.size: is missing"
    assert errors_of(["warning: x\nerror: y"]) == "y"


def test_short_names() -> None:
    assert short_name(URN) == "kubernetes:core/v1:ConfigMap slurm-conf"
    assert short_name("urn:pulumi:p::s::a:b:C::x::y") == "a:b:C x::y"
    assert short_name("odd") == "odd"


@pytest.mark.parametrize(
    ("host", "alive", "words"),
    [
        ("elsewhere", False, "Look there, or at that job"),
        ("runner-7", True, "It runs: wait for it"),
        ("runner-7", False, "it was killed and left its lock"),
    ],
)
def test_a_lock_is_named_with_its_owner_and_the_next_step(host: str, alive: bool, words: str) -> None:
    said = next_step(LOCKED, "prod", host, lambda pid: alive and pid == 4899)
    assert "of ci on runner-7, process 4899, since 2026-11-30T22:23:38Z" in said
    assert words in said
    assert "`pulumi cancel --stack prod`" in said


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("no stack named 'prod' found", "pulumi stack init prod"),
        ("PULUMI_ACCESS_TOKEN must be set for login", "PULUMI_BACKEND_URL"),
        ("get stack secrets manager: incorrect passphrase", "PULUMI_CONFIG_PASSPHRASE"),
        ("configured Kubernetes cluster is unreachable: x", "SPAREWHEEL_OFFLINE=1 make ci-preview STACK=prod"),
        ("failed to load checkpoint: EOF", "remove prod.json.attrs where it is empty"),
        ("[409] Conflict: Another update is currently in progress.", "pulumi cancel --stack prod"),
    ],
)
def test_other_refusals_have_their_next_step(error: str, words: str) -> None:
    assert words in next_step(error, "prod", "h", lambda _: False)
    assert next_step("something else", "prod", "h", lambda _: False) == ""


def test_a_comment_holds_names_only_and_nothing_that_breaks_out() -> None:
    change = Change("create", "a:b:C @everyone|<img>`x`", ("data",))
    text = summary.preview("prod", Look((change,), 3), "**Policies**", ["a:b:C x"])
    assert text.startswith("<!-- sparewheel preview prod -->\n### Preview of `prod`: 1 to create, 3 unchanged")
    row = next(line for line in text.splitlines() if line.startswith("| create"))
    assert row.replace("\\|", "").count("|") == 4
    assert "<img" not in row
    assert "@everyone" not in row
    assert "`a:b:C x`" in text


def test_a_comment_is_never_longer_than_is_taken() -> None:
    changes = tuple(Change("create", f"a:b:C {'x' * 2000}{number}") for number in range(500))
    text = summary.preview("prod", Look(changes, 0), "", [])
    assert len(text) < 65_536
    assert "and 440 more" in text or "cut here" in text


def test_the_alert_says_which_side_differs_and_never_takes_silence_for_drift() -> None:
    changed = Look((Change("update", "a:b:C x", ("spec",)),), 4)
    assert summary.drift("prod", Look((), 5), Look((), 5), []) == ""
    assert "the cluster is other" in summary.drift("prod", Look((), 5), changed, [])
    assert "update a:b:C x (spec)" in summary.drift("prod", changed, Look((), 5), [])
    failed = summary.drift("prod", Look(error="lost the state"), Look((), 5), [])
    assert "nothing is known about drift: lost the state" in failed
    assert "make ci-up STACK=prod" in summary.drift("prod", Look((), 5), Look((), 5), ["a:b:C x"])
