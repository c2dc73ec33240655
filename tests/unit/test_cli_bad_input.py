"""What a user may give wrong on the command line: one line of error, no traceback, nothing asked of the cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
import stamina
from typer.testing import CliRunner

from sparewheel.cli.app import every_command, main

DEAD = """
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: x}}]
"""


BAD_AUTHORITY = DEAD.replace("http:", "https:").replace('1"}', '1", certificate-authority-data: "!!!"}')


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x80\xff\x00", "is no text"),
        (b"garbage: [", "no complete kubeconfig"),
        (b"", "no complete kubeconfig"),
        (BAD_AUTHORITY.encode(), "certificate"),
    ],
)
def test_a_kubeconfig_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, says: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(content)
    monkeypatch.setenv("KUBECONFIG", str(path))
    done = CliRunner().invoke(every_command(), ["status"])
    assert done.exit_code == 1
    (text,) = done.output.splitlines()
    assert text.startswith("error: ")
    assert says in text
    assert "object at 0x" not in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["timeline", ""], "'' is no name"),
        (["timeline", "x/../y"], "is no name"),
        (["replace", ""], "'' is no name"),
        (["inject", "xyz", "--node", "n"], "'xyz' is no fault"),
        (["inject", "xid²", "--node", "n"], "is no fault"),
    ],
)
def test_words_that_cannot_be_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(DEAD)
    monkeypatch.setenv("KUBECONFIG", str(path))
    done = CliRunner().invoke(every_command(), arguments)
    assert done.exit_code == 1
    assert says in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["why", "abc"], "'abc' is no whole number"),
        (["drill", "--limit", "0"], "0 won't do: give 1 or more"),
        (["report", "--days", "9999"], "9999 won't do: give 3660 at most"),
        (["inject", "xid79", "--node", "n", "--bite", "soft"], "'soft' is not one of 'crash', 'hang', 'silent'"),
        (["drill", "--limit", "long"], "'long' is no number"),
    ],
)
def test_values_of_another_kind(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(every_command(), arguments, env={"NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb"})
    assert done.exit_code == 2
    assert says in done.output
    assert "Value error" not in done.output
    assert "Input should" not in done.output


def test_no_kubeconfig_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    done = CliRunner().invoke(every_command(), ["status"])
    assert done.exit_code == 1
    assert "set KUBECONFIG to your cluster's" in done.output
    assert "README" in done.output


def test_usage_has_the_name_that_is_typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["/somewhere/__main__.py", "pool", "add", "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "Usage: sparewheel pool add" in capsys.readouterr().out


def test_a_cluster_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line: what was asked, of whom, why not, and what to look at."""
    path = tmp_path / "kubeconfig"
    path.write_text(DEAD)
    monkeypatch.setenv("KUBECONFIG", str(path))
    with stamina.set_testing(True):
        done = CliRunner().invoke(every_command(), ["status"])
    assert done.exit_code == 1
    (text,) = done.output.splitlines()
    assert text.startswith("error: list GpuPool in sparewheel: http://127.0.0.1:1 did not answer")
    assert text.endswith("KUBECONFIG names the right one")
