"""What the demo and `make lab-status` say to a person: figures, the order of rows, what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab import stack
from lab.__main__ import platform_lines
from lab.demo.picture import Bar
from lab.demo.receiver import Inbox, Message, arriving
from lab.demo.summary import MEANINGS, Runs, by_track, figures
from lab.machines.inventory import save_inventory
from lab.paths import Paths
from lab.pulumi_run import Done
from lab.reach import next_lines, ssh_arguments
from lab.toolchain.paths import REPOSITORY


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "cache")
    save_inventory(found.state, 3)
    return found


def test_the_whole_time_is_said_first_and_each_name_is_explained() -> None:
    told = Runs(seconds=[12.0, 20.0, 13.0], platform=[3.0, 5.0, 4.0], whole=[22.0, 30.0, 24.0])
    told.handed_over = [2.0, 4.0, 1.5]
    said = figures(told, "crash")
    assert said[0] == "fault to first new step, crash: median 24.0 s, worst 30.0 s of 3"
    assert "less load, crash: median 13.0 s" in said[1]
    assert "own save and load, crash: median 4.0 s" in said[2]
    assert "launchers, less save, crash: median 2.0 s, worst 4.0 s of 3" in said[3]
    assert [line.strip() for line in said[4:]] == list(MEANINGS)
    assert figures(Runs(), "crash") == []


def test_rows_stand_by_track_then_start() -> None:
    bars = [Bar("node", "detected", 0, 1), Bar("job 7", "stopping", 1, 2), Bar("node", "fenced", 0.5, 2)]
    bars += [Bar("job 7", "stopping", 0.5, 1)]
    assert [(bar.track, bar.start_seconds) for bar in by_track(bars)] == [
        ("job 7", 0.5),
        ("job 7", 1),
        ("node", 0),
        ("node", 0.5),
    ]


def test_what_to_type_next_names_the_cluster_the_record_and_the_login(paths: Paths) -> None:
    lines = next_lines(paths, "gpu-2-xid79")
    assert lines[:4] == [
        'eval "$(make env)"',
        f"export KUBECONFIG={paths.kubeconfig}",
        "sparewheel status",
        "sparewheel timeline gpu-2-xid79",
    ]
    assert f"ssh -i {stack.user_key(paths, 'alice')} -p 30022 " in lines[4]
    assert "alice@10.77.0.11" in lines[4]


def test_the_readme_has_the_login_line_that_status_prints(paths: Paths) -> None:
    line = shlex.join(ssh_arguments(paths, "alice")).replace(str(paths.state), "/var/lib/sparewheel-lab")
    assert f"`{line}`" in (REPOSITORY / "lab/README.md").read_text("utf-8")


def test_a_message_is_given_to_who_listens_once() -> None:
    inbox = Inbox()
    first, second = (Message("/hook", key, {"title": key}, datetime.now(UTC)) for key in ("a", "b"))
    coming = arriving(inbox)
    for message in (first, second):
        inbox.messages.append(message)
        inbox.arrived.set()
        assert next(coming) is message


def test_status_without_a_cluster_or_its_tools_says_so_and_does_not_fail(paths: Paths) -> None:
    assert platform_lines(paths) == []
    paths.kubeconfig.touch()
    (said,) = platform_lines(paths)
    assert "can't be asked" in said


def test_what_pulumis_plugins_leave_behind_is_in_the_state_that_down_wipes(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def ran(
        _arguments: list[str], _folder: Path, env: Mapping[str, str], _stdin: str | None = None, *, aside: bool
    ) -> Done:
        assert not aside
        seen.append(env["TMPDIR"])
        return Done(0, "{}", "")

    monkeypatch.setattr(stack, "run", ran)
    stack.outputs(paths)
    (folder,) = (Path(one) for one in seen)
    assert folder.is_relative_to(paths.state)
    assert folder.stat().st_mode & 0o777 == 0o700
