"""What a pipeline runs, with the real engine: preview with policies, up, drift, a killed job's lock, an up cut off."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pipelines.engine import Engine
from tests.pulumi.stack import ROOT, ProjectStack
from tests.pulumi.test_stopped_run import session_of

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


@contextmanager
def alerts() -> Iterator[tuple[str, list[str]]]:
    """The address of a webhook, and the texts that it got."""
    texts: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            texts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/CANARY-hook", texts
    server.shutdown()
    server.server_close()


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
    shown = stack.pipeline("preview", GITHUB_STEP_SUMMARY=str(page))
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "2 to create, 0 unchanged" in shown.stdout
    assert "**Policies** (production, 2 resources): no finding." in shown.stdout
    assert page.read_text() == (stack.folder / "build/ci/preview-test.md").read_text()

    done = stack.pipeline("up")
    assert done.returncode == 0, done.stdout + done.stderr
    quiet = stack.pipeline("drift")
    assert (quiet.returncode, quiet.stdout) == (0, "test: no drift (2 resources)\n"), quiet.stderr

    (stack.folder / "world").write_text("text-found")
    with alerts() as (url, texts):
        changed = stack.pipeline("drift", ALERT_URL=url)
    assert changed.returncode == 1, changed.stderr
    assert "the cluster is other than what was last applied: 1 to update" in changed.stdout
    assert "World w (text)" in changed.stdout
    assert "text-" not in shown.stdout + changed.stdout, "names only, never values"
    assert texts == [changed.stdout.rstrip("\n")], "people are told just what the job shows"

    (stack.folder / "world").unlink()
    blind = stack.pipeline("drift")
    assert blind.returncode == 2, "a look that failed is neither drift nor the lack of it"
    assert "nothing is known about drift" in blind.stdout
    assert "ALERT_URL is not set" in blind.stderr


def test_a_killed_jobs_lock_is_named_and_the_next_up_converges(tmp_path: Path) -> None:
    stack = ProjectStack(tmp_path, WAITS)
    job = begun(stack)
    owner = locks(stack)[0]
    os.kill(owner["pid"], signal.SIGKILL)
    assert job.wait(timeout=30) == 2
    left = [words for words in session_of(stack).values() if "pulumi" in words or "policies" in words]
    assert left == [], "no plugin and no policy pack outlives the engine"
    (stack.folder / "go").touch()

    refused = stack.pipeline("up")
    assert refused.returncode == 2
    assert f"process {owner['pid']}" in refused.stderr
    assert "it was killed and left its lock" in refused.stderr
    assert "`pulumi cancel --stack test`" in refused.stderr

    stack.good("cancel", "--yes", "test")
    engine = Engine(stack.folder, "test", stack.env)
    assert [name.split()[-1] for name in engine.interrupted()] == ["waits"]
    assert "an `up` was cut off at command:local:Command waits" in stack.pipeline("drift").stdout
    again = stack.pipeline("up")
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
