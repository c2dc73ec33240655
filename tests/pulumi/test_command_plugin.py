"""The stand-in for pulumi-command under the real engine and the real SDK: a life of each of its resources."""

from __future__ import annotations

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
        delete="echo deleted >> {log}",
        stdin="from standard input",
        environment={{"GREETING": "hello"}},
        triggers=[{trigger!r}],
    )
    secret = {{"PASSWORD": pulumi.Output.secret("hunter2")}}
    hidden = local.Command("hidden", create='echo "$PASSWORD"', environment=secret)
    pulumi.export("stdout", command.stdout)
    pulumi.export("stderr", command.stderr)
    pulumi.export("hidden", hidden.stdout)
"""

REMOTE = """
    import pulumi
    from pulumi_command import remote

    connection = remote.ConnectionArgs(
        host="127.0.0.1", port={port}, user="tester", private_key={private_key!r}, host_key={host_key!r},
    )
    command = remote.Command(
        "command", connection=connection, create='cat; echo " $GREETING"', delete="echo bye", stdin="in",
        environment={{"GREETING": "hello"}},
    )
    remote.CopyToRemote("copy", connection=connection, source=pulumi.FileAsset({source!r}), remote_path={target!r})
    pulumi.export("stdout", command.stdout)
"""


@pytest.fixture
def stack(tmp_path: Path) -> EngineStack:
    return EngineStack(tmp_path)


@pytest.fixture
def server() -> Generator[SshServer]:
    with SshServer() as running:
        yield running


def local(log: Path, create: str, trigger: str = "one") -> str:
    return LOCAL.format(log=log, create=create, trigger=trigger)


def test_the_life_of_a_local_command(stack: EngineStack, tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = stack.up(local(log, 'cat; echo; echo "$GREETING"; echo aside >&2'))
    assert stack.outputs() == {"stdout": "from standard input\nhello", "stderr": "aside", "hidden": "[secret]"}
    assert stack.outputs(reveal=True)["hidden"] == "hunter2"
    assert "hunter2" not in stack.state() + first.said
    assert "aside" in first.said
    unchanged = stack.unchanged()
    assert unchanged.code == 0, unchanged.said

    changed = stack.up(local(log, 'echo "after $PULUMI_COMMAND_STDERR"'))
    assert "1 updated" in changed.said
    assert stack.outputs()["stdout"] == "after aside"
    assert not log.exists()

    replaced = stack.up(local(log, 'echo "after $PULUMI_COMMAND_STDERR"', trigger="two"))
    assert "1 replaced" in replaced.said
    assert log.read_text() == "deleted\n"
    assert stack.outputs()["stdout"] == "after "

    stack.destroy()
    assert log.read_text() == "deleted\ndeleted\n"


def test_a_command_that_fails_says_what_it_said_and_a_preview_runs_nothing(stack: EngineStack, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    stack.write(local(tmp_path / "log", f"touch {ran}; echo it broke here >&2; exit 3"))
    preview = stack.run("preview")
    assert preview.code == 0, preview.said
    assert not ran.exists()

    done = stack.try_up()
    assert done.code != 0
    assert "exit status 3" in done.said
    assert "it broke here" in done.said
    assert ran.exists()


def test_the_life_of_remote_resources(stack: EngineStack, server: SshServer, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("one")
    stack.up(
        REMOTE.format(
            port=server.port,
            private_key=server.user_key_text,
            host_key=server.host_key_line,
            source=str(source),
            target=str(target),
        )
    )
    assert stack.outputs()["stdout"] == "in hello"
    assert target.read_text() == "one"
    assert "OPENSSH PRIVATE KEY" not in stack.state()
    unchanged = stack.unchanged()
    assert unchanged.code == 0, unchanged.said

    source.write_text("two")
    stack.up()
    assert target.read_text() == "two"

    stack.destroy()
    assert server.commands == ['cat; echo " $GREETING"', "echo bye"]
