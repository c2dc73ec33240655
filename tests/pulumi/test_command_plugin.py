"""The stand-in for pulumi-command under the real engine and the real SDK."""

from __future__ import annotations

import socket
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.pulumi.engine import EngineStack
from tests.pulumi.ssh_server import SshServer

LOCAL = """
    import pulumi
    from pulumi_command import local

    command = local.Command(
        "command",
        create={create!r},
        update={update!r},
        delete="echo deleted >> {log}",
        stdin="from standard input",
        environment={{"GREETING": {greeting}}},
        triggers=[{trigger!r}],
    )
    pulumi.export("stdout", command.stdout)
    pulumi.export("stderr", command.stderr)
"""

REMOTE = """
    import pulumi
    from pulumi_command import remote

    connection = remote.ConnectionArgs(
        host="127.0.0.1", port={port}, user="tester", private_key={private_key!r}, host_key={host_key!r},
        dial_error_limit={limit}, per_dial_timeout=5,
    )
"""
REMOTE_COMMAND = """
    command = remote.Command(
        "command", connection=connection, create={create!r}, delete={delete!r}, stdin="in",
        environment={{"GREETING": "hello"}},
    )
    pulumi.export("stdout", command.stdout)
"""
REMOTE_COPY = """
    remote.CopyToRemote("copy", connection=connection, source=pulumi.FileAsset({source!r}), remote_path={target!r})
"""


@pytest.fixture
def stack(tmp_path: Path) -> EngineStack:
    return EngineStack(tmp_path)


@pytest.fixture
def server() -> Generator[SshServer]:
    with SshServer() as running:
        yield running


def local(log: Path, create: str, update: str | None = None, greeting: str = '"hello"', trigger: str = "one") -> str:
    return LOCAL.format(log=log, create=create, update=update, greeting=greeting, trigger=trigger)


def connected(server: SshServer, host_key: str | None = None, port: int | None = None, limit: int = 10) -> str:
    return REMOTE.format(
        port=port or server.port,
        private_key=server.user_key_text,
        host_key=host_key or server.host_key_line,
        limit=limit,
    )


def test_a_local_command_gets_its_input_and_gives_its_output(stack: EngineStack, tmp_path: Path) -> None:
    create = 'cat; echo; echo "$GREETING"; echo aside >&2'
    stack.up(local(tmp_path / "log", create))
    assert stack.outputs() == {"stdout": "from standard input\nhello", "stderr": "aside"}
    unchanged = stack.unchanged()
    assert unchanged.code == 0, unchanged.said


def test_a_change_runs_create_again_and_shows_it_the_output_before(stack: EngineStack, tmp_path: Path) -> None:
    stack.up(local(tmp_path / "log", "echo first"))
    done = stack.up(local(tmp_path / "log", 'echo "after $PULUMI_COMMAND_STDOUT"'))
    assert "1 updated" in done.said
    assert stack.outputs()["stdout"] == "after first"


def test_a_change_runs_update_where_there_is_one(stack: EngineStack, tmp_path: Path) -> None:
    stack.up(local(tmp_path / "log", "echo created", update="echo updated"))
    assert stack.outputs()["stdout"] == "created"
    stack.up(local(tmp_path / "log", "echo created", update="echo updated", greeting='"other"'))
    assert stack.outputs()["stdout"] == "updated"


def test_a_changed_trigger_replaces(stack: EngineStack, tmp_path: Path) -> None:
    log = tmp_path / "log"
    stack.up(local(log, "echo made", trigger="one"))
    done = stack.up(local(log, "echo made", trigger="two"))
    assert "1 replaced" in done.said
    assert log.read_text() == "deleted\n"


def test_delete_runs_on_destroy(stack: EngineStack, tmp_path: Path) -> None:
    log = tmp_path / "log"
    stack.up(local(log, "echo made"))
    assert not log.exists()
    stack.destroy()
    assert log.read_text() == "deleted\n"


def test_a_secret_input_keeps_the_output_secret(stack: EngineStack, tmp_path: Path) -> None:
    secret = 'pulumi.Output.secret("hunter2")'
    done = stack.up(local(tmp_path / "log", 'echo "$GREETING"', greeting=secret))
    assert stack.outputs(reveal=True)["stdout"] == "hunter2"
    assert "hunter2" not in stack.state()
    assert "hunter2" not in done.said


def test_what_is_not_secret_can_be_read_in_the_state(stack: EngineStack, tmp_path: Path) -> None:
    done = stack.up(local(tmp_path / "log", 'echo "$GREETING"', greeting='"plain words"'))
    assert "plain words" in stack.state()
    assert "plain words" in done.said


def test_a_command_that_fails_says_what_it_said(stack: EngineStack, tmp_path: Path) -> None:
    done = stack.try_up(local(tmp_path / "log", "echo it broke here >&2; exit 3"))
    assert done.code != 0
    assert "exit status 3" in done.said
    assert "it broke here" in done.said


def test_a_preview_runs_nothing(stack: EngineStack, tmp_path: Path) -> None:
    log = tmp_path / "log"
    stack.write(local(log, f"echo ran > {log}"))
    done = stack.run("preview")
    assert done.code == 0, done.said
    assert not log.exists()


def test_a_remote_command_runs_there_with_its_input(stack: EngineStack, server: SshServer) -> None:
    command = REMOTE_COMMAND.format(create='cat; echo " $GREETING"', delete="echo bye")
    stack.up(connected(server) + command)
    assert stack.outputs()["stdout"] == "in hello"
    stack.destroy()
    assert server.commands == ['cat; echo " $GREETING"', "echo bye"]
    assert "OPENSSH PRIVATE KEY" not in stack.state()


def test_a_wrong_host_key_is_refused_before_anything_runs(stack: EngineStack, server: SshServer) -> None:
    with SshServer() as other:
        command = REMOTE_COMMAND.format(create="echo never", delete=None)
        done = stack.try_up(connected(server, host_key=other.host_key_line) + command)
    assert done.code != 0
    assert "doesn't have the host key" in done.said
    assert server.commands == []


def test_a_machine_that_does_not_answer_is_given_up_at_the_limit(stack: EngineStack, server: SshServer) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        command = REMOTE_COMMAND.format(create="echo never", delete=None)
        done = stack.try_up(connected(server, port=free.getsockname()[1], limit=3) + command)
    assert done.code != 0
    assert "after 3 failed dial attempts" in done.said


def test_a_file_is_copied_and_copied_again_when_it_changes(
    stack: EngineStack, server: SshServer, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("one")
    program = connected(server) + REMOTE_COPY.format(source=str(source), target=str(target))
    stack.up(program)
    assert target.read_text() == "one"
    source.write_text("two")
    stack.up()
    assert target.read_text() == "two"
    unchanged = stack.unchanged()
    assert unchanged.code == 0, unchanged.said
