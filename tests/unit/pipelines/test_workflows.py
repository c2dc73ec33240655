"""The pipelines of both forges do the same few make targets, pinned, approved and without a way around."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from policies.values import items

ROOT = Path(__file__).parents[3]
GITHUB = sorted((ROOT / ".github").rglob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
USES = re.compile(r"uses: (?P<action>[^@\s]+)@(?P<version>\S+)(?P<comment> #.*)?$", re.MULTILINE)


def workflow(name: str) -> dict[str, Any]:
    return yaml.load((ROOT / ".github/workflows" / f"{name}.yml").read_text(), yaml.BaseLoader)


def gitlab() -> dict[str, Any]:
    return yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())


def scripts() -> Iterator[str]:
    """Every line that either forge runs."""
    for path in GITHUB:
        body: Any = yaml.safe_load(path.read_text())
        jobs = [body["runs"]] if "runs" in body else [job for job in body["jobs"].values() if "steps" in job]
        for job in jobs:
            yield from (step["run"] for step in job["steps"] if "run" in step)
    for job in gitlab().values():
        for part in ("before_script", "script"):
            yield from items(job, part)


@pytest.mark.parametrize("path", GITHUB, ids=lambda path: path.name)
def test_every_action_is_pinned(path: Path) -> None:
    text = path.read_text()
    found = [match for match in USES.finditer(text) if not match["action"].startswith("./")]
    assert len(found) == len(re.findall(r"uses: (?!\./)", text))
    for match in found:
        by_commit = re.fullmatch(r"[0-9a-f]{40}", match["version"])
        assert match["comment"], f"{match['action']}: say which version the commit is, or why it is pinned by a tag"
        assert by_commit or re.fullmatch(r"v\d+\.\d+\.\d+", match["version"]), match[0]


def test_one_action_has_one_pin() -> None:
    pins: dict[str, set[str]] = {}
    for path in GITHUB:
        for match in USES.finditer(path.read_text()):
            pins.setdefault(match["action"], set()).add(match["version"])
    assert all(len(versions) == 1 for versions in pins.values()), pins


def test_what_touches_a_stack_is_a_make_target() -> None:
    lines = list(scripts())
    named = {name for line in lines for name in re.findall(r"(?:^|&& )make ([a-z-]+)", line, re.MULTILINE)}
    assert {"lint", "tools", "ci-preview", "ci-up", "ci-drift"} <= named
    assert named <= TARGETS
    assert not [line for line in lines if re.search(r"pulumi (up|preview|refresh|destroy|cancel)", line)]


def test_github_names_make_targets_only() -> None:
    called = [job["with"]["step"] for name in ("preview", "deploy", "drift") for job in workflow(name)["jobs"].values()]
    assert set(called) == {"ci-preview", "ci-up", "ci-drift"} <= TARGETS
    assert set(workflow("check")["jobs"]["check"]["strategy"]["matrix"]["target"]) <= TARGETS


def test_no_value_of_a_request_becomes_part_of_a_script() -> None:
    assert not [line for line in scripts() if "${{" in line]


def test_a_strangers_request_runs_without_secrets() -> None:
    for path in GITHUB:
        assert "pull_request_target" not in path.read_text(), path.name
    condition = workflow("preview")["jobs"]["preview"]["if"]
    assert "github.event.pull_request.head.repo.full_name == github.repository" in condition
    assert "secrets" not in workflow("check")["jobs"]["check"]
    assert "secrets." not in (ROOT / ".github/workflows/check.yml").read_text()


def test_production_waits_for_staging_and_for_a_person() -> None:
    jobs = workflow("deploy")["jobs"]
    assert jobs["production"]["needs"] == "staging"
    assert "needs.staging.result != 'failure'" in jobs["production"]["if"]
    assert jobs["production"]["with"]["environment"] == "production"  # whose reviewers GitHub asks
    job = gitlab()["up:production"]
    assert job["environment"]["name"] == "production"
    assert job["needs"][0]["job"] == "up:staging"
    rule = job["rules"][0]
    assert (rule["when"], rule["allow_failure"]) == ("manual", False)


def test_an_up_is_never_cut_off_by_another() -> None:
    concurrency = workflow("stack")["jobs"]["run"]["concurrency"]
    assert concurrency["cancel-in-progress"] == "${{ inputs.step == 'ci-preview' }}"
    assert gitlab()[".up"]["interruptible"] is False
    assert gitlab()[".up"]["resource_group"] == "up-$STACK"


def test_drift_is_looked_for_each_night() -> None:
    cron = workflow("drift")["on"]["schedule"][0]["cron"].split()
    assert len(cron) == 5
    assert cron[2:] == ["*", "*", "*"]
    for stack in ("staging", "production"):
        assert '$CI_PIPELINE_SOURCE == "schedule"' in gitlab()[f"drift:{stack}"]["rules"][0]["if"]


def test_versions_are_those_of_the_toolchain() -> None:
    from lab.toolchain.plugins import COMMAND_VERSION
    from lab.toolchain.tools import KUBERNETES_PROVIDER_VERSION, PULUMI_VERSION

    for path in (ROOT / ".github/actions/tools/action.yml", ROOT / ".gitlab-ci.yml"):
        text = path.read_text()
        assert f"resource kubernetes {KUBERNETES_PROVIDER_VERSION}" in text
        assert f"resource command {COMMAND_VERSION}" in text
        assert PULUMI_VERSION in text
