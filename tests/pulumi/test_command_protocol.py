"""The stand-in for pulumi-command, asked in the engine's protocol: each rule by itself."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, NoReturn

import grpc
import pytest
from pulumi.runtime.proto import provider_pb2

from lab.toolchain.command_plugin import wire
from lab.toolchain.command_plugin.servicer import CommandProvider
from lab.toolchain.command_plugin.wire import UNKNOWN, Properties, Secret, Source
from tests.pulumi.ssh_server import SshServer

LOCAL = "urn:pulumi:test::tried::command:local:Command::one"
REMOTE = "urn:pulumi:test::tried::command:remote:Command::one"
COPY = "urn:pulumi:test::tried::command:remote:CopyToRemote::one"


class RefusedError(Exception):
    """The provider answered with an error."""


class Context:
    """The part of a call's context that the provider uses."""

    def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        raise RefusedError(details)


class Asked:
    """The provider as the engine sees it, with Python values for properties."""

    def __init__(self) -> None:
        self.provider = CommandProvider("")

    def check(self, urn: str, inputs: Properties) -> list[str]:
        answer = self.provider.Check(provider_pb2.CheckRequest(urn=urn, news=wire.write(inputs)), Context())
        return [failure.property for failure in answer.failures]

    def diff(self, urn: str, olds: Properties, news: Properties) -> dict[str, str]:
        request = provider_pb2.DiffRequest(urn=urn, old_inputs=wire.write(olds), news=wire.write(news))
        answer = self.provider.Diff(request, Context())
        kinds = provider_pb2.PropertyDiff.Kind
        return {name: kinds.Name(change.kind) for name, change in answer.detailedDiff.items()}

    def create(self, urn: str, inputs: Properties, *, preview: bool = False) -> Properties:
        request = provider_pb2.CreateRequest(urn=urn, properties=wire.write(inputs), preview=preview)
        return wire.read(self.provider.Create(request, Context()).properties)

    def update(self, urn: str, olds: Properties, news: Properties) -> Properties:
        request = provider_pb2.UpdateRequest(urn=urn, olds=wire.write(olds), news=wire.write(news))
        return wire.read(self.provider.Update(request, Context()).properties)

    def delete(self, urn: str, olds: Properties) -> None:
        self.provider.Delete(provider_pb2.DeleteRequest(urn=urn, properties=wire.write(olds)), Context())


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture(scope="module")
def server() -> Generator[SshServer]:
    with SshServer() as running:
        yield running


def connection(server: SshServer, **changed: Any) -> Properties:
    usual = {
        "host": "127.0.0.1",
        "port": server.port,
        "user": "tester",
        "privateKey": server.user_key_text,
        "hostKey": server.host_key_line,
    }
    return {**usual, **changed}


def test_create_gives_what_was_printed_without_the_last_line_end(asked: Asked) -> None:
    outputs = asked.create(LOCAL, {"create": "cat; echo; echo; echo aside >&2", "stdin": "in"})
    assert outputs["stdout"] == "in\n"
    assert outputs["stderr"] == "aside"


def test_the_command_runs_in_its_folder_by_its_interpreter(asked: Asked, tmp_path: Path) -> None:
    inputs: Properties = {
        "create": "import os; print(os.getcwd())",
        "interpreter": ["python3", "-c"],
        "dir": str(tmp_path),
    }
    assert asked.create(LOCAL, inputs)["stdout"] == str(tmp_path)


@pytest.mark.parametrize(
    ("inputs", "printed"),
    [
        ({"create": "echo created", "update": "echo updated"}, "updated"),
        ({"create": 'echo "$PULUMI_COMMAND_STDOUT, again"'}, "before, again"),
        ({"create": 'echo "${PULUMI_COMMAND_STDOUT-none}"', "addPreviousOutputInEnv": False}, "none"),
    ],
)
def test_update_runs_update_or_else_create(asked: Asked, inputs: Properties, printed: str) -> None:
    olds = {"create": "echo before", "stdout": "before", "stderr": ""}
    assert asked.update(LOCAL, olds, inputs)["stdout"] == printed


def test_delete_knows_what_was_printed(asked: Asked, tmp_path: Path) -> None:
    log = tmp_path / "log"
    asked.delete(LOCAL, {"delete": f'echo "$PULUMI_COMMAND_STDOUT" > {log}', "stdout": "made-7", "stderr": ""})
    assert log.read_text() == "made-7\n"


def test_without_a_delete_nothing_runs(asked: Asked) -> None:
    asked.delete(LOCAL, {"create": "exit 1", "stdout": "", "stderr": ""})


def test_a_preview_runs_nothing_and_knows_no_output(asked: Asked, tmp_path: Path) -> None:
    outputs = asked.create(LOCAL, {"create": f"touch {tmp_path / 'ran'}"}, preview=True)
    assert outputs["stdout"] == UNKNOWN
    assert not (tmp_path / "ran").exists()


def test_triggers_replace_and_other_inputs_update(asked: Asked) -> None:
    olds: Properties = {"create": "echo 1", "triggers": ["a"], "stdin": "same"}
    news: Properties = {"create": "echo 2", "triggers": ["b"], "stdin": "same"}
    assert asked.diff(LOCAL, olds, news) == {"create": "UPDATE", "triggers": "UPDATE_REPLACE"}
    assert asked.diff(LOCAL, olds, olds) == {}


def test_a_secret_is_the_same_as_its_value(asked: Asked) -> None:
    assert asked.diff(LOCAL, {"stdin": Secret("x")}, {"stdin": "x"}) == {}
    assert asked.diff(LOCAL, {"stdin": Secret("x")}, {"stdin": Secret("y")}) == {"stdin": "UPDATE"}


def test_a_source_is_what_it_holds(asked: Asked, tmp_path: Path) -> None:
    def copied(path: str, digest: str) -> Properties:
        return {"source": Source(archive=False, path=path, digest=digest), "remotePath": "/tmp/x"}

    assert asked.diff(COPY, copied("a", "1"), copied("b", "1")) == {}
    assert asked.diff(COPY, copied("a", "1"), copied("a", "2")) == {"source": "UPDATE"}


def test_what_a_command_with_a_secret_prints_is_secret(asked: Asked) -> None:
    outputs = asked.create(LOCAL, {"create": 'echo "$P"', "environment": {"P": Secret("hunter2")}})
    assert outputs["stdout"] == Secret("hunter2")
    assert asked.create(LOCAL, {"create": "echo open"})["stdout"] == "open"


@pytest.mark.parametrize(
    ("create", "said"),
    [
        ("echo broken >&2; exit 3", "exit status 3: running .*\nbroken"),
        ("kill -9 $$", "signal SIGKILL: running"),
    ],
)
def test_a_command_that_ends_badly_is_an_error(asked: Asked, create: str, said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        asked.create(LOCAL, {"create": create})


def test_a_folder_that_is_not_there_is_named(asked: Asked) -> None:
    with pytest.raises(RefusedError, match=r"No such file or directory .*/nowhere"):
        asked.create(LOCAL, {"create": "true", "dir": "/nowhere"})


def test_bad_inputs_are_named(asked: Asked, server: SshServer) -> None:
    assert asked.check(LOCAL, {"create": "true", "logging": "loud"}) == ["logging"]
    assert asked.check(LOCAL, {"assetPaths": ["*"], "crate": "true"}) == ["assetPaths", "crate"]
    assert asked.check(REMOTE, {"create": "true"}) == ["connection"]
    text = Source(archive=False, path=None, digest="1")
    assert asked.check(COPY, {"connection": connection(server), "source": text, "remotePath": "x"}) == ["source"]
    assert asked.check(LOCAL, {"create": "true", "logging": "none", "triggers": [1]}) == []


def test_cancel_ends_what_runs(asked: Asked) -> None:
    failures: list[str] = []

    def create() -> None:
        try:
            asked.create(LOCAL, {"create": "sleep 60 & wait"})
        except RefusedError as error:
            failures.append(str(error))

    thread = threading.Thread(target=create)
    thread.start()
    deadline = time.monotonic() + 10
    while thread.is_alive() and time.monotonic() < deadline:
        asked.provider.Cancel(None, Context())
        thread.join(0.05)
    assert not thread.is_alive()
    assert len(failures) == 1


def test_a_remote_command_gets_its_input_and_gives_its_output(asked: Asked, server: SshServer) -> None:
    inputs: Properties = {
        "connection": Secret(connection(server)),
        "create": 'cat; echo " $GREETING"; echo aside >&2',
        "stdin": "in",
        "environment": {"GREETING": "hello"},
    }
    outputs = asked.create(REMOTE, inputs)
    assert (outputs["stdout"], outputs["stderr"]) == ("in hello", "aside")
    assert isinstance(outputs["connection"], Secret)


def test_a_remote_command_that_fails_names_the_machine(asked: Asked, server: SshServer) -> None:
    with pytest.raises(RefusedError, match=r"exited with status 4 on tester@127\.0\.0\.1:\d+: running .*\nbroken"):
        asked.create(REMOTE, {"connection": connection(server), "create": "echo broken; exit 4"})


def test_a_wrong_host_key_is_refused_before_anything_runs(asked: Asked, server: SshServer) -> None:
    before = list(server.commands)
    wrong = connection(server, hostKey=SshServer().host_key_line)
    with pytest.raises(RefusedError, match="doesn't have the host key"):
        asked.create(REMOTE, {"connection": wrong, "create": "echo never"})
    assert server.commands == before


def test_a_machine_that_does_not_answer_is_given_up_at_the_limit(asked: Asked, server: SshServer) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        deaf = connection(server, port=free.getsockname()[1], dialErrorLimit=3, perDialTimeout=1)
        with pytest.raises(RefusedError, match="after 3 failed dial attempts"):
            asked.create(REMOTE, {"connection": deaf, "create": "echo never"})


def test_a_key_that_cannot_be_read_is_said_without_showing_it(asked: Asked, server: SshServer) -> None:
    with pytest.raises(RefusedError, match="the key given for tester@127") as refused:
        asked.create(REMOTE, {"connection": connection(server, privateKey="no key at all"), "create": "true"})
    assert "no key at all" not in str(refused.value)


def test_a_proxy_is_gone_through(asked: Asked, server: SshServer) -> None:
    through = connection(server, proxy=connection(server))
    assert asked.create(REMOTE, {"connection": through, "create": "echo there"})["stdout"] == "there"


def test_files_and_folders_are_copied(asked: Asked, server: SshServer, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text("content")
    (tmp_path / "there").mkdir()

    def copied(path: Path, target: Path, *, archive: bool) -> Properties:
        source = Source(archive=archive, path=str(path), digest="1")
        return {"connection": connection(server), "source": source, "remotePath": str(target)}

    asked.create(COPY, copied(folder / "file", tmp_path / "named", archive=False))
    assert (tmp_path / "named").read_text() == "content"
    asked.create(COPY, copied(folder, tmp_path / "there", archive=True))
    assert (tmp_path / "there" / "folder" / "file").read_text() == "content"
    with pytest.raises(RefusedError, match=r"is a file and can't take the folder"):
        asked.create(COPY, copied(folder, tmp_path / "named", archive=True))
    with pytest.raises(RefusedError, match=r"nothing-here doesn't exist"):
        asked.create(COPY, copied(tmp_path / "nothing-here", tmp_path / "x", archive=False))
