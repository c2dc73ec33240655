"""What a pipeline runs, with the real engine: preview with policies, up, drift, a killed job's lock, an up cut off."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pipelines.engine import Engine
from tests.pulumi.stack import ROOT, ProjectStack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WORLD = """
from pathlib import Path
from pulumi.dynamic import CreateResult, ReadResult, Resource, ResourceProvider, UpdateResult


class Worldly(ResourceProvider):
    def create(self, props):
        Path("world").write_text(props["text"])
        return CreateResult("w", dict(props))

    def update(self, id_, old, new):
        Path("world").write_text(new["text"])
        return UpdateResult(dict(new))

    def read(self, id_, props):
        found = {**props, "text": Path("world").read_text()}
        return ReadResult(id_, found, found)


class World(Resource, module="tried", name="World"):
    def __init__(self, name, text):
        super().__init__(Worldly(), name, {"text": text})


World("w", "text-declared")
"""
WAITS = """
from pulumi_command import local

local.Command("waits", create="touch started; while [ ! -e go ]; do sleep 0.05; done")
"""


def pipeline(stack: ProjectStack, step: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pipelines", step, "--stack", "test", "--project", str(stack.folder)],
        cwd=ROOT,
        env={**stack.env, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def begun(stack: ProjectStack) -> subprocess.Popen[bytes]:
    """An up that has begun to make its resource."""
    command = [sys.executable, "-m", "pipelines", "up", "--stack", "test", "--project", str(stack.folder)]
    job = subprocess.Popen(command, cwd=ROOT, env=stack.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (stack.folder / "started").exists():
        assert job.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return job


def locks(stack: ProjectStack) -> list[dict[str, Any]]:
    found = sorted((stack.backend / ".pulumi" / "locks").glob("**/*.json"))
    return [json.loads(path.read_text()) for path in found]


def test_preview_up_and_drift(tmp_path: Path) -> None:
    stack = ProjectStack(tmp_path, WORLD)
    page = tmp_path / "page.md"
    shown = pipeline(stack, "preview", GITHUB_STEP_SUMMARY=str(page))
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "2 to create, 0 unchanged" in shown.stdout
    assert "**Policies** (production, 2 resources): no finding." in shown.stdout
    assert page.read_text() == (stack.folder / "build/ci/preview-test.md").read_text()

    done = pipeline(stack, "up")
    assert done.returncode == 0, done.stdout + done.stderr
    quiet = pipeline(stack, "drift")
    assert (quiet.returncode, quiet.stdout) == (0, "test: no drift (2 resources)\n"), quiet.stderr

    (stack.folder / "world").write_text("text-found")
    changed = pipeline(stack, "drift")
    assert changed.returncode == 1, changed.stderr
    assert "the cluster is other than what was last applied: 1 to update" in changed.stdout
    assert "World w (text)" in changed.stdout
    assert "text-" not in shown.stdout + changed.stdout, "names only, never values"
    assert "ALERT_URL is not set" in changed.stderr

    (stack.folder / "world").unlink()
    blind = pipeline(stack, "drift")
    assert blind.returncode == 2, "a look that failed is neither drift nor the lack of it"
    assert "nothing is known about drift" in blind.stdout


def test_a_killed_jobs_lock_is_named_and_the_next_up_converges(tmp_path: Path) -> None:
    stack = ProjectStack(tmp_path, WAITS)
    job = begun(stack)
    owner = locks(stack)[0]
    os.kill(owner["pid"], signal.SIGKILL)
    assert job.wait(timeout=30) == 2
    (stack.folder / "go").touch()

    refused = pipeline(stack, "up")
    assert refused.returncode == 2
    assert f"process {owner['pid']}" in refused.stderr
    assert "it was killed and left its lock" in refused.stderr
    assert "`pulumi cancel --stack test`" in refused.stderr

    stack.good("cancel", "--yes", "test")
    engine = Engine(stack.folder, "test", stack.env)
    assert [name.split()[-1] for name in engine.interrupted()] == ["waits"]
    assert "an `up` was cut off at command:local:Command waits" in pipeline(stack, "drift").stdout
    again = pipeline(stack, "up")
    assert again.returncode == 0, again.stdout + again.stderr
    assert engine.interrupted() == []
    assert locks(stack) == []
    assert [one["urn"].rpartition("::")[2] for one in stack.resources(":Command")] == ["waits"]


def test_a_stopped_job_leaves_no_lock(tmp_path: Path) -> None:
    stack = ProjectStack(tmp_path, WAITS)
    job = begun(stack)
    job.send_signal(signal.SIGTERM)
    (stack.folder / "go").touch()
    job.wait(timeout=30)
    assert locks(stack) == []


def test_a_stack_without_a_file_is_one_error_that_says_which_there_are(tmp_path: Path) -> None:
    stack = ProjectStack(tmp_path, "")
    done = subprocess.run(
        [sys.executable, "-m", "pipelines", "up", "--stack", "prod", "--project", str(stack.folder)],
        cwd=ROOT, env=stack.env, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "error: there is no stacks/Pulumi.prod.yaml; name one as STACK=NAME, of: test\n"
